/* SPDX-License-Identifier: BSD-3-Clause */
/* The host table, and the ledger of operations. */

#include "na_conformance/host.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "na_conformance/host_memory.h"
#include "na_conformance/shared.h"

#define OP_MAGIC   UINT64_C(0x6f702d6c6564676b)
#define OP_OFFSET  256u /* offset of the private part, without the alignment added to it */
#define GUARD_SIZE 64u

_Static_assert(sizeof(struct conf_op) <= OP_OFFSET - GUARD_SIZE, "room for the guard");

static void host_complete(void *priv, int32_t status);
static void host_complete_recv(void *priv, int32_t status, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag);
static int32_t host_complete_multi(void *priv, int32_t status, void *buf, uint64_t size,
                                   struct na_plugin_addr *source, uint32_t tag, uint32_t last);
static uint32_t host_log_enabled(uint32_t level);
static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message);
static uint64_t host_clock(void);
static const void *host_get_extension(const char *id);
static const void *host_behind(const char *id);
static struct conf_op *op_find(void *priv, const char *function);
static bool op_end_begin(struct conf_op *op, int32_t status, const char *function);
static void op_end(struct conf_op *op);
static bool multi_is_inside(const struct conf_op *op, const uint8_t *data, uint64_t size);
static void op_check_recv(const struct conf_op *op, int32_t status, uint64_t size,
                          const struct na_plugin_addr *source);
static void op_check_guards(const struct conf_op *op);
static void op_check_left_alone(struct conf_op *op);
static uint8_t *op_copy(struct conf_op *op);
static const char *kind_name(uint32_t kind);

/* conf_host_clock_own() */
static _Thread_local bool clock_is_own;
static _Thread_local uint64_t clock_delay, clock_last;

static const struct na_host host = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_host),
    .op_complete = host_complete,
    .op_complete_recv = host_complete_recv,
    .op_complete_multi_recv = host_complete_multi,
    .mem_alloc = conf_memory_alloc,
    .mem_free = conf_memory_free,
    .log_enabled = host_log_enabled,
    .log = host_log,
    .clock_ns = host_clock,
    .get_extension = host_get_extension,
};

static uint32_t private_size, private_offset = OP_OFFSET, log_level;
static _Atomic int notify_fd = -1;
static _Atomic uint64_t completions;
static pthread_mutex_t ops_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct conf_op *ops;

const struct na_host *conf_host(void)
{
    return &host;
}

/* A table with room for functions of later versions, which are NULL. */
const struct na_host *conf_host_of(uint32_t abi_version)
{
    static struct {
        struct na_host host;
        void (*later[8])(void);
    } other;

    other.host = host;
    other.host.abi_version = abi_version;
    other.host.size = sizeof(other);
    return &other.host;
}

const struct na_host *conf_host_first(void)
{
    static struct na_host first;

    first = host;
    first.abi_version = NA_PLUGIN_ABI_MAJOR << 16;
    first.size = offsetof(struct na_host, get_extension);
    first.get_extension = host_behind;
    return &first;
}

/* The private part is aligned to op_align, but not to more. */
void conf_host_set_op(uint32_t op_size, uint32_t op_align)
{
    private_size = op_size;
    private_offset = OP_OFFSET + op_align;
}

struct conf_op *conf_op_make(const void *owner)
{
    const size_t size =
        private_offset + private_size + GUARD_SIZE + private_size; /* the last part is a copy */
    struct conf_op *op = NULL;

    if (posix_memalign((void **) (void *) &op, 256, size) != 0)
        conf_fail("no memory for an operation");
    memset(op, 0, size);
    op->magic = OP_MAGIC;
    op->owner = owner;
    conf_guard_set((uint8_t *) op + private_offset - GUARD_SIZE, GUARD_SIZE);
    conf_guard_set((uint8_t *) op + private_offset + private_size, GUARD_SIZE);
    (void) pthread_mutex_lock(&ops_mutex);
    op->next = ops;
    ops = op;
    (void) pthread_mutex_unlock(&ops_mutex);
    return op;
}

void *conf_op_private(struct conf_op *op)
{
    return (uint8_t *) op + private_offset;
}

void conf_op_begin(struct conf_op *op, enum conf_op_kind kind, void *data, uint64_t room)
{
    const uint32_t state = atomic_load(&op->state);

    conf_require(state == CONF_OP_IDLE || state == CONF_OP_DONE,
                 "the check uses an operation that is outstanding");
    if (state == CONF_OP_DONE)
        op_check_left_alone(op);
    op->kind = kind;
    op->data = data;
    op->room = room;
    op->used = 0;
    op->source = NULL;
    op->size = 0;
    atomic_store(&op->state, CONF_OP_POSTED);
}

void conf_op_begun(struct conf_op *op, int32_t status)
{
    uint32_t posted = CONF_OP_POSTED;

    if (status == NA_PLUGIN_SUCCESS)
        return;
    if (!atomic_compare_exchange_strong(&op->state, &posted, CONF_OP_IDLE))
        conf_watch_broken(CONF_WATCH_ACCEPTED,
                          "%s was completed, though the call that was to accept it returned %s",
                          kind_name(op->kind), conf_status_name(status));
}

bool conf_op_is_done(const struct conf_op *op)
{
    return atomic_load_explicit(&op->state, memory_order_acquire) == CONF_OP_DONE;
}

void conf_ops_check_completed(const void *owner, const char *when)
{
    (void) pthread_mutex_lock(&ops_mutex);
    for (struct conf_op *op = ops; op != NULL; op = op->next) {
        if (op->owner != owner)
            continue;
        if (atomic_load(&op->state) == CONF_OP_POSTED)
            conf_watch_broken(CONF_WATCH_COMPLETES, "%s was not completed %s", kind_name(op->kind),
                              when);
        op_check_guards(op);
    }
    (void) pthread_mutex_unlock(&ops_mutex);
}

/* The memory is not freed, so that a late completion is recognized. */
void conf_ops_end(const void *owner, void (*function)(struct conf_op *op, void *arg), void *arg)
{
    (void) pthread_mutex_lock(&ops_mutex);
    for (struct conf_op *op = ops; op != NULL; op = op->next) {
        if (op->owner != owner)
            continue;
        if (atomic_load(&op->state) == CONF_OP_DONE)
            op_check_left_alone(op);
        function(op, arg);
        op_check_guards(op);
        op->owner = NULL;
        atomic_store(&op->state, CONF_OP_IDLE);
    }
    (void) pthread_mutex_unlock(&ops_mutex);
}

uint64_t conf_host_completions(void)
{
    return atomic_load(&completions);
}

uint64_t conf_host_clock_own(bool is_own)
{
    clock_delay = is_own ? conf_run_delay_ns(0) : 0;
    clock_is_own = is_own;
    return host_clock();
}

void conf_host_set_notify(int fd)
{
    atomic_store(&notify_fd, fd);
}

void conf_host_set_log(uint32_t level)
{
    log_level = level;
}

static void host_complete(void *priv, int32_t status)
{
    struct conf_op *op = op_find(priv, "op_complete");

    if (op == NULL || !op_end_begin(op, status, "op_complete"))
        return;
    if (status == NA_PLUGIN_SUCCESS && op->kind != CONF_OP_SEND && op->kind != CONF_OP_RMA)
        conf_watch_broken(CONF_WATCH_FORM, "op_complete reported success of %s",
                          kind_name(op->kind));
    op->status = status;
    op->size = 0;
    op->source = NULL;
    op_end(op);
}

static void host_complete_recv(void *priv, int32_t status, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag)
{
    struct conf_op *op = op_find(priv, "op_complete_recv");

    if (op == NULL || !op_end_begin(op, status, "op_complete_recv"))
        return;
    op_check_recv(op, status, size, source);
    op->status = status;
    op->size = size;
    op->source = source;
    op->tag = tag;
    op_end(op);
}

static int32_t host_complete_multi(void *priv, int32_t status, void *buf, uint64_t size,
                                   struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    struct conf_op *op = op_find(priv, "op_complete_multi_recv");

    if (op == NULL)
        return NA_PLUGIN_SUCCESS;
    if (atomic_load(&op->state) != CONF_OP_POSTED) {
        (void) op_end_begin(op, status, "op_complete_multi_recv");
        return NA_PLUGIN_SUCCESS;
    }
    if (op->kind != CONF_OP_RECV_MULTI) {
        conf_watch_broken(CONF_WATCH_FORM, "op_complete_multi_recv completed %s",
                          kind_name(op->kind));
        return NA_PLUGIN_SUCCESS;
    }
    if (status == NA_PLUGIN_SUCCESS && (source == NULL || !multi_is_inside(op, buf, size)))
        conf_watch_broken(CONF_WATCH_FORM,
                          "a message of a multi-receive has %s, %llu bytes, and lies %s",
                          source == NULL ? "no source" : "a source", (unsigned long long) size,
                          multi_is_inside(op, buf, size) ? "in the buffer's free part"
                                                         : "not in the buffer's free part");
    if (op->multi != NULL && !op->multi(op, status, buf, size, source, tag, last != 0))
        return NA_PLUGIN_NOMEM;
    if (buf != NULL && multi_is_inside(op, buf, size))
        op->used = (uint64_t) ((uint8_t *) buf - op->data) + size;
    if (status == NA_PLUGIN_SUCCESS &&
        last == 0) /* the last message is counted when the operation ends */
        (void) atomic_fetch_add(&completions, 1);
    if (last != 0 && op_end_begin(op, status, "op_complete_multi_recv")) {
        op->status = status;
        op_end(op);
    }
    return NA_PLUGIN_SUCCESS;
}

/* Errors are always enabled: the last one explains a failure. */
static uint32_t host_log_enabled(uint32_t level)
{
    return level == NA_PLUGIN_LOG_ERROR || level <= log_level;
}

static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message)
{
    if (level == NA_PLUGIN_LOG_ERROR && !conf_is_peer && message != NULL)
        (void) snprintf(conf_shared->plugin_error, sizeof(conf_shared->plugin_error), "%s",
                        message);
    if (level <= log_level)
        (void) fprintf(stderr, "# %s%s %s:%u: %s\n", conf_is_peer ? "peer: " : "",
                       plugin != NULL ? plugin : "?", function != NULL ? function : "?", line,
                       message != NULL ? message : "");
}

static uint64_t host_clock(void)
{
    uint64_t now = tool_clock_ns();

    if (clock_is_own)
        now -= conf_run_delay_ns(0) - clock_delay;
    clock_last = now > clock_last ? now : clock_last;
    return clock_is_own ? clock_last : now;
}

static const void *host_get_extension(const char *id)
{
    (void) id;
    return NULL;
}

static const void *host_behind(const char *id)
{
    conf_watch_broken(CONF_WATCH_BOUNDS,
                      "get_extension was asked for %s, and is behind the size of the host's table",
                      id);
    return NULL;
}

static struct conf_op *op_find(void *priv, const char *function)
{
    struct conf_op *op = priv == NULL ? NULL : (void *) ((uint8_t *) priv - private_offset);

    if (op != NULL && op->magic == OP_MAGIC)
        return op;
    conf_watch_broken(CONF_WATCH_ACCEPTED, "%s was called with %p, which is no operation", function,
                      priv);
    return NULL;
}

/* Moves the operation to ENDING, once; false: it is complete already, or was not posted. */
static bool op_end_begin(struct conf_op *op, int32_t status, const char *function)
{
    uint32_t state = CONF_OP_POSTED;

    if (status < NA_PLUGIN_SUCCESS || status > NA_PLUGIN_HOSTFIREWALL)
        conf_watch_broken(CONF_WATCH_FORM, "%s was told the status %d, which does not exist",
                          function, status);
    if (atomic_compare_exchange_strong(&op->state, &state, CONF_OP_ENDING))
        return true;
    if (state == CONF_OP_IDLE)
        conf_watch_broken(CONF_WATCH_ACCEPTED,
                          "%s completed an operation with %s that is not outstanding", function,
                          conf_status_name(status));
    else
        conf_watch_broken(CONF_WATCH_ONCE, "%s was completed with %s and then with %s",
                          kind_name(op->kind), conf_status_name(op->status),
                          conf_status_name(status));
    return false;
}

static void op_end(struct conf_op *op)
{
    const int fd = atomic_load_explicit(&notify_fd, memory_order_relaxed);
    const uint64_t one = 1;

    (void) atomic_fetch_add(&completions, 1);
    memcpy(op_copy(op), conf_op_private(op), private_size);
    atomic_store_explicit(&op->state, CONF_OP_DONE, memory_order_release);
    if (fd >= 0 && write(fd, &one, sizeof(one)) < 0)
        conf_watch_broken(CONF_WATCH_FORM, "too many completions");
}

static void op_check_recv(const struct conf_op *op, int32_t status, uint64_t size,
                          const struct na_plugin_addr *source)
{
    const bool unexpected = op->kind == CONF_OP_RECV_UNEXPECTED;

    if (!unexpected && op->kind != CONF_OP_RECV_EXPECTED)
        conf_watch_broken(CONF_WATCH_FORM, "op_complete_recv completed %s", kind_name(op->kind));
    else if (status != NA_PLUGIN_SUCCESS && (size != 0 || source != NULL))
        conf_watch_broken(CONF_WATCH_FORM,
                          "%s failed with %s and has %llu bytes and %s; size 0 and no source are "
                          "promised",
                          kind_name(op->kind), conf_status_name(status), (unsigned long long) size,
                          source != NULL ? "a source" : "no source");
    else if (status == NA_PLUGIN_SUCCESS && size > op->room)
        conf_watch_broken(CONF_WATCH_FORM, "%s of %llu bytes got a message of %llu",
                          kind_name(op->kind), (unsigned long long) op->room,
                          (unsigned long long) size);
    else if (status == NA_PLUGIN_SUCCESS && unexpected != (source != NULL))
        conf_watch_broken(CONF_WATCH_FORM, "%s was completed with %s", kind_name(op->kind),
                          source != NULL ? "a source" : "no source");
}

static bool multi_is_inside(const struct conf_op *op, const uint8_t *data, uint64_t size)
{
    return data >= op->data + op->used && size <= op->room && data <= op->data + (op->room - size);
}

static void op_check_guards(const struct conf_op *op)
{
    const uint8_t *priv = (const uint8_t *) op + private_offset;
    int64_t before = conf_guard_broken(priv - GUARD_SIZE, GUARD_SIZE);
    int64_t after = conf_guard_broken(priv + private_size, GUARD_SIZE);

    if (before >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS,
                          "%lld bytes before the private part of an operation were written to",
                          (long long) (GUARD_SIZE - before));
    if (after >= 0)
        conf_watch_broken(CONF_WATCH_BOUNDS,
                          "the private part of an operation was written to at byte %lld, and "
                          "op_size is %u",
                          (long long) (private_size + after), private_size);
}

/* Checks that the private part was not written to after the completion, before its next use. */
static void op_check_left_alone(struct conf_op *op)
{
    if (memcmp(op_copy(op), conf_op_private(op), private_size) != 0)
        conf_watch_broken(CONF_WATCH_AFTER, "%s was written to after its completion",
                          kind_name(op->kind));
}

/* Copy of the private part as it was at the completion, behind the guard. */
static uint8_t *op_copy(struct conf_op *op)
{
    return (uint8_t *) op + private_offset + private_size + GUARD_SIZE;
}

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {"a send", "an unexpected receive", "an expected receive",
                                        "a multi-receive", "a put or get"};

    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "an operation";
}
