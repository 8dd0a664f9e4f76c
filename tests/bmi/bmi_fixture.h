/* SPDX-License-Identifier: BSD-3-Clause */
/* Two instances of BMI in one process, each listening at its own port, and functions to drive
 * them. */

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

/* The most completions that a side records. */
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

/* `port` 0: any free port; -1: does not listen. */
void side_open(struct side *side, int port);
void side_close(struct side *side);

/* Makes the side current and returns the address of the other side. */
BMI_addr_t side_lookup(struct side *side, const struct side *other);

/* Progresses both sides once and records completions. `b` may be NULL. */
void sides_progress(struct side *a, struct side *b);

/* Progresses until `side` has `count` completions, for at most 10 s. */
void sides_wait(struct side *side, struct side *other, int count);

/* Waits for the next unexpected message of `side`. */
struct BMI_unexpected_info sides_wait_unexpected(struct side *side, struct side *other);

/* Waits for an unexpected message for at most `ms`; true if there was one. */
bool sides_poll_unexpected(struct side *side, struct side *other, int ms,
                           struct BMI_unexpected_info *info);

/* Posts an operation; an immediate completion is recorded like the others. Returns the id. */
bmi_op_id_t side_send(struct side *side, BMI_addr_t to, const void *data, size_t size,
                      bmi_msg_tag_t tag, void *user_ptr);
void side_send_unexpected(struct side *side, BMI_addr_t to, const void *data, size_t size,
                          bmi_msg_tag_t tag);
bmi_op_id_t side_receive(struct side *side, BMI_addr_t from, void *data, size_t size,
                         bmi_msg_tag_t tag, void *user_ptr);

/* Removes and returns the completion with this pointer, which must have been recorded. */
struct completion side_take(struct side *side, void *user_ptr);

/* Returns a socket that is connected to the side. */
int socket_connect(const struct side *side);

/* Send all bytes, or a message with its header, and with its payload unless `data` is NULL. */
void socket_send(int fd, const void *data, size_t size);
void message_send(int fd, const struct wire_header *header, const void *data);

/* Receives the next bytes; the side progresses meanwhile. */
void socket_receive(struct side *side, int fd, void *data, size_t size);

/* Whether there is something to do, so that a wait would return at once. */
bool side_is_awake(struct side *side);

/* Fills with a pattern that depends on the seed; or checks for it. */
void pattern_fill(void *data, size_t size, uint32_t seed);
bool pattern_check(const void *data, size_t size, uint32_t seed);

double seconds(void);

#endif /* BMI_FIXTURE_H */
