/* SPDX-License-Identifier: BSD-3-Clause */
/* A host for plugins that trusts nothing: it keeps a ledger of every operation, and has guards
 * around every allocation and buffer. Broken promises go to conf_watch_broken(). */

#ifndef AMALGAM_CONF_HOST_H
#define AMALGAM_CONF_HOST_H

#include <na_plugin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum conf_op_kind {
    CONF_OP_SEND, /* unexpected or expected */
    CONF_OP_RECV_UNEXPECTED,
    CONF_OP_RECV_EXPECTED,
    CONF_OP_RECV_MULTI,
    CONF_OP_RMA
};

enum conf_op_state {
    CONF_OP_IDLE,
    CONF_OP_POSTED, /* owned by the plugin, or being posted */
    CONF_OP_ENDING, /* its completion is being recorded */
    CONF_OP_DONE
};

struct conf_op;

/* Callback for a message of a multi-receive. Returns false if the message cannot be taken now. */
typedef bool (*conf_multi_fn)(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                              struct na_plugin_addr *source, uint32_t tag, bool last);

/* The core's half of an operation. The plugin's half follows, between guards. */
struct conf_op {
    uint64_t magic;
    struct conf_op *next; /* list of all operations of the process */
    const void *owner;    /* the endpoint that it was created for */
    _Atomic uint32_t state;
    uint32_t kind;
    uint64_t room; /* size of a receive's buffer */
    uint8_t *data; /* buffer of a receive */
    uint64_t used;
    conf_multi_fn multi;
    void *arg;
    /* Results of the completion. */
    int32_t status;
    uint32_t tag;
    uint64_t size;
    struct na_plugin_addr *source;
};

/* The host tables: the current one, one with another version and a larger size, and the one of
 * minor 0, which is shorter. */
const struct na_host *conf_host(void);
const struct na_host *conf_host_of(uint32_t abi_version);
const struct na_host *conf_host_first(void);

/* Sets the size of the plugin's half of operations; called once, before the first is created. */
void conf_host_set_op(uint32_t op_size, uint32_t op_align);

/* Creates an idle operation; its private part is zero-filled. */
struct conf_op *conf_op_make(const void *owner);

/* The plugin's half. */
void *conf_op_private(struct conf_op *op);

/* Called before and after the call that passes the operation to the plugin. */
void conf_op_begin(struct conf_op *op, enum conf_op_kind kind, void *data, uint64_t room);
void conf_op_begun(struct conf_op *op, int32_t status);

/* True after the completion; its results can then be read. */
bool conf_op_is_done(const struct conf_op *op);

/* All operations of an owner must be complete; `when` is the time of the check for the message. */
void conf_ops_check_completed(const void *owner, const char *when);

/* Calls `function` for all operations of the owner, and removes them. */
void conf_ops_end(const void *owner, void (*function)(struct conf_op *op, void *arg), void *arg);

/* Number of the plugin's live allocations. */
uint64_t conf_host_allocations(void);

/* Lets `count` more allocations succeed, and all later ones fail; negative: none fails. */
void conf_host_fail_allocation(int64_t count);

/* Number of completions reported, including messages of multi-receives. */
uint64_t conf_host_completions(void);

/* Number of allocations so far. */
uint64_t conf_host_allocated(void);

/* Memory between guards; pages beyond the guards are inaccessible. The caller checks the guards. */
struct conf_block {
    uint8_t *data;
    uint64_t size;
    uint8_t *map;
    uint64_t map_size;
};

void conf_block_map(struct conf_block *block, uint64_t size);
void conf_block_check(const struct conf_block *block, const char *what);
void conf_block_unmap(struct conf_block *block);

/* Sets guards of `size` bytes; conf_guard_broken() returns the first changed byte, or -1. */
void conf_guard_set(uint8_t *guard, uint64_t size);
int64_t conf_guard_broken(const uint8_t *guard, uint64_t size);

/* Sets an eventfd that completions make readable, like the core's for its sleepers; -1: none. */
void conf_host_set_notify(int fd);

/* Lets the host's clock, as the plugin reads it in this thread, stand still while the thread
 * waits for a processor, or ends that. Returns its value. */
uint64_t conf_host_clock_own(bool is_own);

/* Sets the level from which the plugin's log goes to stderr; 0: nothing. */
void conf_host_set_log(uint32_t level);

#endif /* AMALGAM_CONF_HOST_H */
