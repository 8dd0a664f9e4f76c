/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the process: opening, progress, waiting, messages. What a check does not expect to
 * fail ends the check when it does. */

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

/* Long enough for anything that happens at all; of the time of conf_now_ms(). */
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

/* How an endpoint is to be opened; zeros are the usual. */
struct conf_open {
    bool origin_only; /* nobody is to send who was not told of it */
    uint32_t contexts;
    uint32_t progress_mode;
    uint32_t thread_mode;
    uint64_t message_size; /* hint for both kinds */
    const char *protocol;  /* another one than the init string's */
    bool first_minor;      /* the class's info has the size that it has in minor 0 of the ABI */
};

/* A buffer for messages, as the plugin gives it or between guards. */
struct conf_buffer {
    uint8_t *data;
    uint64_t size;
    void *fabric; /* what goes along with it */
    const struct conf_end *end;
    struct conf_block block;
};

/* `how` NULL: as usual. conf_try_open() returns what initialize() did. */
void conf_open(struct conf_end *end, const struct conf_open *how);
int32_t conf_try_open(struct conf_end *end, const struct conf_open *how);
void conf_close(struct conf_end *end);

/* The halves of closing; everything outstanding has to be complete after the first. */
void conf_stop(struct conf_end *end);
void conf_destroy(struct conf_end *end);

/* A context made by hand. */
int32_t conf_context_create(struct conf_end *end, uint32_t id);

/* All endpoints of the process progress; conf_progress_ms() for a while. */
void conf_progress(void);
void conf_progress_ms(unsigned int ms);
int32_t conf_poll(const struct conf_end *end, uint32_t id, uint32_t *count);

/* What all polls of the process have added to their counts. */
uint64_t conf_polled(void);

/* Between polls; longer where they complete nothing, but not longer than until `fd` is readable,
 * unless that is -1. Returns true when nothing comes, so that one poll at a time is enough. */
bool conf_pause(int fd);

/* Time that passes, but not while this thread waits for a processor: on a machine that is busy with
 * other things everything takes longer, and nothing hangs. Compare it in one thread only. */
uint64_t conf_now_ms(void);

/* A copy of a text for one call, and its end: whoever kept a pointer to it crashes. */
char *conf_text_lend(const char *text);
void conf_text_take_back(char *text);

/* Other loops that progress may want to leave endpoints alone, for threads of their own. */
void conf_leave_alone(struct conf_end *end);

struct conf_op *conf_op_new(const struct conf_end *end);

/* Waits for a completion; `what` says of what. conf_wait_ok() requires success of it, too. */
void conf_wait(const struct conf_op *op, const char *what);
void conf_wait_ok(const struct conf_op *op, const char *what);
bool conf_wait_for(const struct conf_op *op, unsigned int ms);

/* Addresses */
struct na_plugin_addr *conf_lookup(struct conf_end *end, const char *address);
void conf_addr_free(struct conf_end *end, struct na_plugin_addr *addr);
bool conf_addr_same(struct conf_end *end, struct na_plugin_addr *a, struct na_plugin_addr *b);
void conf_addr_string(struct conf_end *end, struct na_plugin_addr *addr, char *text, size_t size);

/* Buffers; a send buffer has its header. `flags` are NA_PLUGIN_BUF_*; 0 is memory of our own. */
void conf_buffer_get(struct conf_buffer *buffer, const struct conf_end *end, uint64_t size,
                     uint32_t flags, bool expected);
void conf_buffer_check(const struct conf_buffer *buffer, const char *what);
void conf_buffer_put(struct conf_buffer *buffer);

/* Bytes of the plugin's at the front of a message, and what is left of the largest. */
uint64_t conf_header(const struct conf_end *end, bool expected);
uint64_t conf_max_message(const struct conf_end *end, bool expected);
uint64_t conf_max_payload(const struct conf_end *end);

/* Posts; `size` is that of the message, header included. */
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
/* Both call cancel_trusted from now on; without one the check is skipped then. */
void conf_cancel_trusted(void);

/* The same, where refusal ends the check. A send is tried again as long as resources are short,
 * also by conf_try_send(), which returns a refusal. */
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

/* One message to its end. */
void conf_send_wait(struct conf_end *end, uint32_t id, const struct conf_buffer *buffer,
                    uint64_t size, struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag,
                    bool expected);

/* Content by which a message is recognised: from a seed, of any size. conf_is_filled() returns
 * where it differs, or -1. */
void conf_fill(uint8_t *data, uint64_t size, uint64_t seed);
int64_t conf_is_filled(const uint8_t *data, uint64_t size, uint64_t seed);

#endif /* AMALGAM_CONF_END_H */
