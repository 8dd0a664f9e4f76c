/* SPDX-License-Identifier: BSD-3-Clause */
/* Two instances of BMI in one process, each at a port of its own, and what drives them. */

#ifndef BMI_FIXTURE_H
#define BMI_FIXTURE_H

#include "bmi.h"
#include "tcp_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define LOCALHOST "tcp://127.0.0.1:"

/* Completions that a side remembers. */
#define SIDE_COMPLETIONS 64

struct completion {
    void *user_ptr;
    bmi_error_code_t error;
    bmi_size_t size;
};

struct side {
    struct BMI_instance *instance;
    bmi_context_id context;
    int port;
    char name[64];
    struct completion completions[SIDE_COMPLETIONS];
    int count;
};

/* `port` 0 takes a free one; -1 does not listen. */
void side_open(struct side *side, int port);
void side_close(struct side *side);

/* Makes it current and returns the address of the other. */
BMI_addr_t side_lookup(struct side *side, const struct side *other);

/* Both make progress once; what completed is remembered. `b` may be NULL. */
void sides_progress(struct side *a, struct side *b);

/* Until `side` has so many completions, at most 10 s. */
void sides_wait(struct side *side, struct side *other, int count);

/* The next unexpected message of `side`. */
struct BMI_unexpected_info sides_wait_unexpected(struct side *side, struct side *other);

/* True: an unexpected message was there within the time. */
bool sides_poll_unexpected(struct side *side, struct side *other, int ms,
                           struct BMI_unexpected_info *info);

/* Posts; what completes at once is remembered like the rest. Returns the id. */
bmi_op_id_t side_send(struct side *side, BMI_addr_t to, const void *data, size_t size,
                      bmi_msg_tag_t tag, void *user_ptr);
void side_send_unexpected(struct side *side, BMI_addr_t to, const void *data, size_t size,
                          bmi_msg_tag_t tag);
bmi_op_id_t side_receive(struct side *side, BMI_addr_t from, void *data, size_t size,
                         bmi_msg_tag_t tag, void *user_ptr);

/* The completion of that pointer, which has to be there; forgets it. */
struct completion side_take(struct side *side, void *user_ptr);

/* A connected socket to the side. */
int socket_connect(const struct side *side);

/* All of it; the message with the header, and with its payload if there is `data`. */
void socket_send(int fd, const void *data, size_t size);
void message_send(int fd, const struct wire_header *header, const void *data);

/* The next bytes; the side makes progress meanwhile. */
void socket_receive(struct side *side, int fd, void *data, size_t size);

/* True when there is something to do: a wait would not sleep. */
bool side_is_awake(struct side *side);

/* Fills with what depends on the seed; true when it is that. */
void pattern_fill(void *data, size_t size, uint32_t seed);
bool pattern_check(const void *data, size_t size, uint32_t seed);

double seconds(void);

#endif /* BMI_FIXTURE_H */
