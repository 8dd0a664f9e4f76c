/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs with a key, and an attacker between them: the attacker sees each message below HG, may
 * alter the message, and may send messages under the name of either side.
 */
#ifndef TESTS_HG_SESSION_FIXTURE_H
#define TESTS_HG_SESSION_FIXTURE_H

#include "hg_fixture.h"

#include "hg/header.h"
#include "hg/sessions.h"

#define KEY         "open sesame"
#define MESSAGE_MAX 8192u
#define TAKEN_MAX   64

struct message {
    na_class_t *na_class;
    na_context_t *context;
    na_addr_t *addr;
    size_t header; /* of NA's own header */
    size_t size;
    na_tag_t tag;
    uint8_t id;
    bool is_expected;
    char bytes[MESSAGE_MAX];
};

/*
 * Called for each message. A hook may alter `bytes`, which are the ones that are sent, and the size
 * and tag in `message`.
 */
typedef na_return_t (*hook_t)(struct message *message, char *bytes);

extern hook_t hook;
extern size_t hook_at; /* parameter of a hook: the byte to alter */
extern int hook_left;  /* parameter of a hook: how many messages to alter */
extern struct message *taken[TAKEN_MAX];
extern int taken_count;
extern bool is_taking;
extern const char *also; /* auth_key_also of the classes opened next */

bool is_hello(const struct message *message);
bool is_request(const struct message *message);
/* The last request that was taken. */
struct message *taken_request(void);
/* Free the messages that were taken; their classes must still be open. */
void taken_clear(void);

/* Make a message look as if `side` had sent it to `to`. */
void message_is_from(struct message *message, const struct side *side, na_addr_t *to);
/*
 * Make a response of the target to the request that it held first, which `handle` of the origin
 * sent: the header with the handle's cookie, padded with zeros to `size`.
 */
void response_make(const struct pair *pair, const hg_handle_t handle,
                   struct hg_core_header_response header, size_t size, struct message *response);
/* Send `message` in the name of the sender of `sender`, which is a side of the pair. */
void inject_as(const struct pair *pair, const struct message *sender, const struct message *message,
               na_tag_t tag);
void inject(const struct pair *pair, const struct message *message);

void side_open_keyed(struct side *side, const char *key);
void pair_open_keyed(struct pair *pair);
void pair_end(struct pair *pair);

uint64_t refused(const struct side *side);
void wait_refused(const struct pair *pair, const struct side *side, uint64_t count);
/* Messages refused for any reason: some bytes of a message are checked before its seal. */
uint64_t refused_at_all(const struct side *side);

/*
 * An RPC whose messages are altered by `with`. If `refusing` is not NULL, the RPC ends once that
 * side has refused a message, because there may be no response.
 */
hg_return_t call_altered(const struct pair *pair, hook_t with, size_t at,
                         const struct side *refusing);
hg_return_t call_hooked(const struct pair *pair, hook_t with, size_t at);

#endif
