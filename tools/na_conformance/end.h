/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the process: opening, progress, waiting, messages. A function that fails
 * unexpectedly ends the check. */

#ifndef AMALGAM_CONF_END_H
#define AMALGAM_CONF_END_H

#include <na_plugin.h>
#include <stdbool.h>
#include <stdint.h>

#include "na_conformance/host.h"
#include "na_conformance/load.h"
#include "na_conformance/shared.h"

#define CONF_CONTEXTS_MAX 4
#define CONF_ADDRESS_SIZE 1024

/* Long enough for everything that can complete; measured by conf_now_ms(). */
#define CONF_WAIT_MS (10000u * conf_patience)

struct conf_end {
    struct na_plugin_class *na_class;
    struct na_plugin_class_info info;
    struct na_plugin_context *contexts[CONF_CONTEXTS_MAX];
    uint32_t context_count;
    struct na_plugin_addr *self;
    char address[CONF_ADDRESS_SIZE];
    struct conf_op *sender; /* of conf_send_wait() */
    struct conf_op *mover;  /* of conf_transfer_wait() */
    struct conf_end *next;
};

/* Options of an endpoint; zeros are the defaults. */
struct conf_open {
    bool origin_only; /* only peers that know its address send to it */
    uint32_t contexts;
    uint32_t progress_mode;
    uint32_t thread_mode;
    uint64_t message_size; /* hint for both kinds of messages */
    const char *protocol;  /* instead of the init string's */
    bool first_minor;      /* the class's info has its size of ABI minor 0 */
};

/* A message buffer, allocated by the plugin or between guards. */
struct conf_buffer {
    uint8_t *data;
    uint64_t size;
    void *fabric; /* the plugin's data of the buffer */
    const struct conf_end *end;
    struct conf_block block;
};

/* `how` may be NULL for the defaults. conf_try_open() returns the result of initialize(). */
void conf_open(struct conf_end *end, const struct conf_open *how);
int32_t conf_try_open(struct conf_end *end, const struct conf_open *how);
void conf_close(struct conf_end *end);

/* The two steps of closing; all outstanding operations must be complete after the first one. */
void conf_stop(struct conf_end *end);
void conf_destroy(struct conf_end *end);

/* Creates a context explicitly. */
int32_t conf_context_create(struct conf_end *end, uint32_t id);

/* Makes progress on all endpoints of the process; conf_progress_ms() for some time. */
void conf_progress(void);
void conf_progress_ms(unsigned int ms);
int32_t conf_poll(const struct conf_end *end, uint32_t id, uint32_t *count);

/* Sum of the counts of all polls in the process. */
uint64_t conf_polled(void);

/* Pauses between polls, longer if they complete nothing, but only until `fd` is readable, unless
 * that is -1. Returns true after a longer time without completions: one poll at a time is
 * enough. */
bool conf_pause(int fd);

/* Sleeps as the core does, in poll_wait or on the descriptor, for `ms` at most; without both it
 * cannot. */
bool conf_can_sleep(const struct conf_end *end);
void conf_sleep(const struct conf_end *end, uint32_t ms);

/* Time in ms that stands still while this thread waits for a processor: on a busy machine
 * everything takes longer, without being stuck. Compare values of one thread only. */
uint64_t conf_now_ms(void);

/* Copies a text for one call, and unmaps it afterwards: a plugin that keeps the pointer crashes. */
char *conf_text_lend(const char *text);
void conf_text_take_back(char *text);

/* Excludes an endpoint from the progress of other loops, for threads that poll it themselves. */
void conf_leave_alone(struct conf_end *end);

struct conf_op *conf_op_new(const struct conf_end *end);

/* Waits for a completion; `what` names the operation. conf_wait_ok() also requires success. */
void conf_wait(const struct conf_op *op, const char *what);
void conf_wait_ok(const struct conf_op *op, const char *what);
bool conf_wait_for(const struct conf_op *op, unsigned int ms);

/* Addresses */
struct na_plugin_addr *conf_lookup(struct conf_end *end, const char *address);
void conf_addr_free(struct conf_end *end, struct na_plugin_addr *addr);
bool conf_addr_same(struct conf_end *end, struct na_plugin_addr *a, struct na_plugin_addr *b);
void conf_addr_string(struct conf_end *end, struct na_plugin_addr *addr, char *text, size_t size);

/* Buffers; a send buffer has its header. `flags` are NA_PLUGIN_BUF_*; 0 is memory of the check. */
void conf_buffer_get(struct conf_buffer *buffer, const struct conf_end *end, uint64_t size,
                     uint32_t flags, bool expected);
void conf_buffer_check(const struct conf_buffer *buffer, const char *what);
void conf_buffer_put(struct conf_buffer *buffer);

/* Size of the plugin's header of a message, and the largest message and payload. */
uint64_t conf_header(const struct conf_end *end, bool expected);
uint64_t conf_max_message(const struct conf_end *end, bool expected);
uint64_t conf_max_payload(const struct conf_end *end);

/* Post an operation; `size` is the size of the message with the header. */
int32_t conf_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                  const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                  uint32_t dest_id, uint32_t tag, bool expected);
int32_t conf_recv_unexpected(struct conf_end *end, uint32_t id, struct conf_op *op,
                             struct conf_buffer *buffer, uint64_t size);
int32_t conf_recv_expected(struct conf_end *end, uint32_t id, struct conf_op *op,
                           struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *source,
                           uint32_t source_id, uint32_t tag);
int32_t conf_recv_multi(struct conf_end *end, uint32_t id, struct conf_op *op,
                        struct conf_buffer *buffer, uint64_t size, conf_multi_fn function,
                        void *arg);
int32_t conf_cancel(struct conf_end *end, uint32_t id, struct conf_op *op);
/* The same for a thread whose calls are not watched. */
int32_t conf_cancel_aside(struct conf_end *end, uint32_t id, struct conf_op *op);
/* Makes both call cancel_trusted from now on; skips the check if the plugin has none. */
void conf_cancel_trusted(void);

/* The same, but refusal ends the check. Sends are retried while resources are short, also by
 * conf_try_send(), which returns other errors. */
void conf_must_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                    const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                    uint32_t dest_id, uint32_t tag, bool expected);
int32_t conf_try_send(struct conf_end *end, uint32_t id, struct conf_op *op,
                      const struct conf_buffer *buffer, uint64_t size, struct na_plugin_addr *dest,
                      uint32_t dest_id, uint32_t tag, bool expected);
void conf_must_recv(struct conf_end *end, uint32_t id, struct conf_op *op,
                    struct conf_buffer *buffer);
void conf_must_recv_expected(struct conf_end *end, uint32_t id, struct conf_op *op,
                             struct conf_buffer *buffer, struct na_plugin_addr *source,
                             uint32_t source_id, uint32_t tag);

/* Sends one message and waits for its completion. */
void conf_send_wait(struct conf_end *end, uint32_t id, const struct conf_buffer *buffer,
                    uint64_t size, struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag,
                    bool expected);

/* Fills data of any size from a seed, to recognize a message. conf_is_filled() returns the first
 * difference, or -1. */
void conf_fill(uint8_t *data, uint64_t size, uint64_t seed);
int64_t conf_is_filled(const uint8_t *data, uint64_t size, uint64_t seed);

#endif /* AMALGAM_CONF_END_H */
