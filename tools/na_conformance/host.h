/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host for plugins that trusts nothing: every operation has a ledger, every allocation and every
 * buffer has guards. What breaks a promise is told to conf_watch_broken().
 */

#ifndef AMALGAM_CONF_HOST_H
#define AMALGAM_CONF_HOST_H

#include <na_plugin.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum conf_op_kind {
    CONF_OP_SEND, /* either kind of message */
    CONF_OP_RECV_UNEXPECTED,
    CONF_OP_RECV_EXPECTED,
    CONF_OP_RECV_MULTI,
    CONF_OP_RMA
};

enum conf_op_state {
    CONF_OP_IDLE,
    CONF_OP_POSTED, /* the plugin has it, or is just being given it */
    CONF_OP_ENDING, /* its completion is being written down */
    CONF_OP_DONE
};

struct conf_op;

/* One message of a multi-receive. Returns false when it is not taken. */
typedef bool (*conf_multi_fn)(struct conf_op *op, int32_t status, uint8_t *data, uint64_t size,
                              struct na_plugin_addr *source, uint32_t tag, bool last);

/* An operation: the core's half. The plugin's half lies behind it, between guards. */
struct conf_op {
    uint64_t magic;
    struct conf_op *next; /* all operations of the process */
    const void *owner;    /* the endpoint that it was made for */
    _Atomic uint32_t state;
    uint32_t kind;
    uint64_t room; /* of a receive */
    uint8_t *data; /* of a receive, and where a multi-receive's next message may begin */
    uint64_t used;
    conf_multi_fn multi;
    void *arg;
    /* What the completion said. */
    int32_t status;
    uint32_t tag;
    uint64_t size;
    struct na_plugin_addr *source;
};

/* The table that plugins get, one that says it is of another version and longer, and the one of
 * minor 0, which ends earlier. */
const struct na_host *conf_host(void);
const struct na_host *conf_host_of(uint32_t abi_version);
const struct na_host *conf_host_first(void);

/* Says how large the plugin's half of operations is; once, before the first is made. */
void conf_host_set_op(uint32_t op_size, uint32_t op_align);

/* A new operation, idle; its private part is zero-filled. */
struct conf_op *conf_op_make(const void *owner);

/* What the plugin gets of it. */
void *conf_op_private(struct conf_op *op);

/* Before and after the call that hands it to the plugin. */
void conf_op_begin(struct conf_op *op, enum conf_op_kind kind, void *data, uint64_t room);
void conf_op_begun(struct conf_op *op, int32_t status);

/* True when the completion has come, which the caller may read then. */
bool conf_op_is_done(const struct conf_op *op);

/* All operations of an owner have to be completed; `when` says since when. */
void conf_ops_check_completed(const void *owner, const char *when);

/* Calls `function` for all operations of the owner, which end with it. */
void conf_ops_end(const void *owner, void (*function)(struct conf_op *op, void *arg), void *arg);

/* What the plugin has allocated and not freed. */
uint64_t conf_host_allocations(void);

/* The allocation that comes after `count` more fails, and all after it; negative: none does. */
void conf_host_fail_allocation(int64_t count);

/* How many completions were reported, messages of multi-receives included. */
uint64_t conf_host_completions(void);

/* How many allocations there were. */
uint64_t conf_host_allocated(void);

/* Memory between guards: what lies beyond the guards cannot be touched. The caller checks them. */
struct conf_block {
    uint8_t *data;
    uint64_t size;
    uint8_t *map;
    uint64_t map_size;
};

void conf_block_map(struct conf_block *block, uint64_t size);
void conf_block_check(const struct conf_block *block, const char *what);
void conf_block_unmap(struct conf_block *block);

/* Guards of `size` bytes; conf_guard_broken() returns the first one that changed, or -1. */
void conf_guard_set(uint8_t *guard, uint64_t size);
int64_t conf_guard_broken(const uint8_t *guard, uint64_t size);

/* An eventfd that each completion makes readable, as the core has for its sleepers; -1: none. */
void conf_host_set_notify(int fd);

/*
 * The host's clock, as the plugin reads it in this thread, stands still from now on while the
 * thread waits for a processor, or no more. Returns what it shows.
 */
uint64_t conf_host_clock_own(bool is_own);

/* What the plugin logs goes to stderr from this level on; 0: nothing. */
void conf_host_set_log(uint32_t level);

#endif /* AMALGAM_CONF_HOST_H */
