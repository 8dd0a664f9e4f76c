/* SPDX-License-Identifier: BSD-3-Clause */
/* Internals of the loop plugin: its objects, and the functions that its files share. */

#ifndef LOOP_H
#define LOOP_H

#include "loop_control.h"
#include "na_plugin.h"

#include <pthread.h>

#define CLASSES_MAX  16
#define CONTEXTS_MAX 8
#define MESSAGE_MAX  4096
#define TAG_MAX      65535u

enum loop_kind {
    SEND,
    RECV_UNEXPECTED,
    RECV_MULTI,
    RECV_EXPECTED,
    TRANSFER
};

/* The plugin's private part of an operation. */
struct loop_op {
    struct loop_op *next;
    enum loop_kind kind;
    char *buf;
    uint64_t size, used;
    uint32_t tag, source_class, source_context;
    struct loop_op **list; /* the list that it is in; guarded by the context's mutex */
};

struct loop_message {
    struct loop_message *next;
    uint32_t source_class, source_context, tag, expected;
    uint64_t size;
    char content[MESSAGE_MAX];
};

struct na_plugin_context {
    struct na_plugin_class *na_class;
    uint32_t id, stopped;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int fd;
    struct loop_op *posted, *done, *held; /* receives, completed operations, held sends */
    struct loop_message *inbox;
    uint32_t woken;
};

struct na_plugin_class {
    uint32_t number;
    struct na_plugin_context *contexts[CONTEXTS_MAX];
};

struct na_plugin_addr {
    atomic_uint references;
    uint32_t number;
};

struct na_plugin_mem {
    struct na_plugin_segment segments[4];
    uint64_t count;
    uint64_t key; /* 0 until it is registered */
    uint32_t flags;
    struct na_plugin_mem *next; /* in the list of registered memory */
};

extern struct loop_control loop_control;
extern const struct na_host *loop_host;
extern pthread_mutex_t loop_mutex; /* guards the list of classes */
extern struct na_plugin_class *loop_classes[CLASSES_MAX];

int32_t loop_fails(const char *function);
void loop_count(int change);
void loop_append(struct loop_op **list, struct loop_op *op);
int loop_take(struct loop_op **list, struct loop_op *op);
void loop_complete(struct loop_op *op, int32_t status);
void loop_notify(struct na_plugin_context *context);
struct na_plugin_addr *loop_addr_make(uint32_t number);

/* loop_message.c */
int32_t loop_msg_init_unexpected(struct na_plugin_class *na_class, void *buf, uint64_t size);
int32_t loop_msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag);
int32_t loop_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag);
int32_t loop_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data);
int32_t loop_msg_multi_recv(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                            void *data);
int32_t loop_msg_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *source,
                               uint32_t source_id, uint32_t tag);
int32_t loop_poll(struct na_plugin_context *context, uint32_t *completed);
int32_t loop_poll_get_fd(struct na_plugin_context *context);
uint32_t loop_poll_try_wait(struct na_plugin_context *context);
int32_t loop_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms, uint32_t *completed);
void loop_wake(struct na_plugin_context *context);
int32_t loop_cancel(struct na_plugin_context *context, void *op);
int32_t loop_cancel_trusted(struct na_plugin_context *context, void *op);

/* loop_memory.c */
int32_t loop_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                        uint32_t flags, struct na_plugin_mem **mem_p);
int32_t loop_mem_create_segments(struct na_plugin_class *na_class,
                                 const struct na_plugin_segment *segments, uint64_t segment_count,
                                 uint32_t flags, struct na_plugin_mem **mem_p);
void loop_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t loop_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                          uint32_t mem_type, uint64_t device);
int32_t loop_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t loop_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t loop_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                           uint64_t size);
int32_t loop_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                             struct na_plugin_mem **mem_p);
int32_t loop_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                 uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                 uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t loop_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                 uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                 uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);

#endif /* LOOP_H */
