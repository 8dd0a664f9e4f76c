/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs that have a key, and somebody on the way between them: it sees each message below HG, may
 * alter it, and sends others in its sender's place.
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
    size_t header; /* NA's own */
    size_t size;
    na_tag_t tag;
    uint8_t id;
    bool is_expected;
    char bytes[MESSAGE_MAX];
};

/* What is done to a message: it may alter `bytes` (those that are sent), size and tag. */
typedef na_return_t (*hook_t)(struct message *message, char *bytes);

extern hook_t hook;
extern size_t hook_at; /* for a hook: which byte */
extern int hook_left;  /* for a hook: how often */
extern struct message *taken[TAKEN_MAX];
extern int taken_count;
extern bool is_taking;
extern const char *also; /* a second key of the next classes */

bool is_hello(const struct message *message);
bool is_request(const struct message *message);
/* The last that was taken. */
struct message *taken_request(void);
/* Forget what was taken; the classes are still open. */
void taken_clear(void);

/* As if that side had sent it there. */
void message_is_from(struct message *message, const struct side *side, na_addr_t *to);
/*
 * A response in the target's name to what it holds first, the request of that handle: the header,
 * with the handle's cookie, and zeros up to the size.
 */
void response_make(const struct pair *pair, const hg_handle_t handle,
                   struct hg_core_header_response header, size_t size, struct message *response);
/* Send it in the name of the sender of another one, who is one of the pair. */
void inject_as(const struct pair *pair, const struct message *sender, const struct message *message,
               na_tag_t tag);
void inject(const struct pair *pair, const struct message *message);

void side_open_keyed(struct side *side, const char *key);
void pair_open_keyed(struct pair *pair);
void pair_end(struct pair *pair);

uint64_t refused(const struct side *side);
void wait_refused(const struct pair *pair, const struct side *side, uint64_t count);
/* Whatever it was refused for: some bytes are read before the seal is. */
uint64_t refused_at_all(const struct side *side);

/*
 * An RPC whose messages are altered. It ends when `refusing` has refused one, which need not be
 * answered. NULL: nobody does.
 */
hg_return_t call_altered(const struct pair *pair, hook_t with, size_t at,
                         const struct side *refusing);
hg_return_t call_hooked(const struct pair *pair, hook_t with, size_t at);

#endif
