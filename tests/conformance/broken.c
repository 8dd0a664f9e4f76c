/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A plugin that works except for one thing. It wraps another plugin (BROKEN_OF, a path) and breaks
 * the one promise that BROKEN_WHAT names, or works in an unusual way. Its own name is BROKEN_NAME.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "na_plugin.h"

/* The promises to break. */
#define LOSES    1  /* loses a completion now and then */
#define TWICE    2  /* now and then completes an operation a second time */
#define SOURCE   3  /* reports the class itself as the source of messages */
#define PAST     4  /* writes a byte past the end of a receive's buffer */
#define LEAKS    5  /* does not free memory of the host in finalize */
#define BLOCKS   6  /* sleeps in poll when there is nothing to do */
#define ORDER    7  /* holds back a message and sends it after the next one */
#define DROPS    8  /* drops a send now and then, and reports success */
#define LATE     9  /* completes outstanding operations only after context_stop has returned */
#define REFUSES  10 /* completes an operation and then returns an error for it */
#define STUCK    11 /* does not cancel anything */
#define TAGS     12 /* reports a tag that is one too high */
#define OVERRUN  13 /* writes past the plugin's part of an operation */
#define OFFSET   14 /* puts one byte too far, unless the offset is 0 */
#define NUMB     15 /* has a descriptor that never becomes readable */
#define CRASHES  16 /* crashes in addr_to_string */
#define FAILS    17 /* poll fails now and then */
#define SILENT   18 /* does not report the death of a peer */
#define NAMELESS 19 /* accepts anything as an address */
#define GROWS    20 /* does not free a few bytes of malloc() in finalize */
#define EXPORTS  21 /* exports a symbol besides its entry */
#define TOUCHES  22 /* writes to an operation after its completion */
#define STRAYS   23 /* sends its first expected message as an unexpected one */
#define COUNTS   24 /* takes two references to a source */
#define KEEPS    25 /* keeps memory for a source whose message was too large, until cleanup */
#define DEAF     26 /* starts a receive of another thread in the next poll, without waking it */
#define BOASTS   27 /* claims progress without polls */
#define SMALL    28 /* breaks nothing: has the smallest limits that are allowed */
#define LIES     29 /* reports the second get as done, but does not do it */
#define DOZES    30 /* sleeps in poll before it starts a get */
#define CLINGS   31 /* keeps a string of the init info, and reads it later */
#define WIDE     32 /* writes all members of the class info, whatever its size */
#define PRINTS   33 /* breaks nothing: prints text that looks like a report */
#define SPREADS  34 /* when a peer dies, cancels all expected receives but the last one */
#define ASIDE    35 /* like ORDER, but not for messages to the first context */
#define TALLIES  36 /* counts completions twice in poll */
#define INSISTS  37 /* queues sends although it has to report back-pressure */
#define HOARDS   38 /* takes any number of messages, and reports them as sent */
#define EXCEEDS  39 /* gives peers access to more than a handle's range */
#define HALVES   40 /* fills a receive in two halves, the second one even after a cancel */
#define DOUBTS   41 /* cancel_trusted does nothing */
#define SHRINKS  42 /* has a counter that falls */
#define SHOUTS   43 /* has an option whose name has capitals */
#define LINGERS  44 /* polls in context_stop for a while */
#define MUTE     46 /* does not report lost peers */
#define HAUNTS   45 /* writes to the memory of a get after its context was stopped */

/*
 * How often the fault occurs: often enough to be found, but rarely enough that everything around it
 * works. DROPS drops the second message, so that even a program which sends only a few loses one.
 */
#define EVERY 50u
#define FIRST (BROKEN_WHAT == DROPS ? 1u : EVERY - 1u)

static const struct na_host *real_host;
static struct na_host host;
static struct na_plugin plugin, real;
static atomic_uint times;

#if BROKEN_WHAT == LOSES || BROKEN_WHAT == TWICE || BROKEN_WHAT == FAILS || BROKEN_WHAT == DROPS
static int is_due(void)
{
    return atomic_fetch_add(&times, 1) % EVERY == FIRST;
}
#endif

#if BROKEN_WHAT == LOSES || BROKEN_WHAT == TWICE
static void complete(void *op, int32_t status)
{
    const int due = is_due();

    if (BROKEN_WHAT != LOSES || !due)
        real_host->op_complete(op, status);
    if (BROKEN_WHAT == TWICE && due)
        real_host->op_complete(op, status);
}
#endif

#if BROKEN_WHAT == TOUCHES
static void complete(void *op, int32_t status)
{
    real_host->op_complete(op, status);
    ((uint8_t *) op)[real.op_size] ^= 1; /* in the part that change() has added */
}
#endif

#if BROKEN_WHAT == SOURCE
static struct na_plugin_class *opened;

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    if (status == NA_PLUGIN_SUCCESS)
        opened = *class_p;
    return status;
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    if (source != NULL) {
        real.addr_free(opened, source);
        (void) real.addr_self(opened, &source);
    }
    real_host->op_complete_recv(op, status, size, source, tag);
}
#endif

#if BROKEN_WHAT == COUNTS
static struct na_plugin_class *opened;

/* The first class is the receiver. */
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    if (status == NA_PLUGIN_SUCCESS && opened == NULL)
        opened = *class_p;
    return status;
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    struct na_plugin_addr *more;

    if (source != NULL)
        (void) real.addr_dup(opened, source, &more);
    real_host->op_complete_recv(op, status, size, source, tag);
}
#endif

#if BROKEN_WHAT == KEEPS
static void *kept[1000];
static uint32_t kept_count;

static void keep(int32_t status)
{
    if (status == NA_PLUGIN_MSGSIZE && kept_count < 1000)
        kept[kept_count++] = real_host->mem_alloc(100, 0);
}

static void complete(void *op, int32_t status)
{
    keep(status);
    real_host->op_complete(op, status);
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    keep(status);
    real_host->op_complete_recv(op, status, size, source, tag);
}

static void cleanup(void)
{
    while (kept_count > 0)
        real_host->mem_free(kept[--kept_count]);
    if (real.cleanup != NULL)
        real.cleanup();
}
#endif

#if BROKEN_WHAT == STRAYS
static int32_t send_expected(struct na_plugin_context *context, void *op, const void *buf,
                             uint64_t size, void *data, struct na_plugin_addr *dest,
                             uint32_t dest_id, uint32_t tag)
{
    if (atomic_fetch_add(&times, 1) == 0)
        return real.msg_send_unexpected(context, op, buf, size, data, dest, dest_id, tag);
    return real.msg_send_expected(context, op, buf, size, data, dest, dest_id, tag);
}
#endif

#if BROKEN_WHAT == DEAF
static struct na_plugin_context *late_context;
static void *late_buf, *late_data, *_Atomic late_op;
static uint64_t late_size;

static int32_t recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data)
{
    if (gettid() == getpid())
        return real.msg_recv_unexpected(context, op, buf, size, data);
    late_context = context;
    late_buf = buf;
    late_size = size;
    late_data = data;
    atomic_store(&late_op, op);
    return NA_PLUGIN_SUCCESS;
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    void *op = atomic_exchange(&late_op, NULL);

    if (op != NULL && real.msg_recv_unexpected(late_context, op, late_buf, late_size, late_data) !=
                          NA_PLUGIN_SUCCESS)
        real_host->op_complete(op, NA_PLUGIN_IO_ERROR);
    return real.poll(context, done);
}
#endif

#if BROKEN_WHAT == BOASTS
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    if (status == NA_PLUGIN_SUCCESS)
        info->capabilities |= NA_PLUGIN_CAP_FORWARD_PROG;
    return status;
}
#endif

#if BROKEN_WHAT == SMALL
#    define LEAST_MESSAGE 256u
#    define LEAST_RMA     4096u

static struct na_plugin_class_info limits;

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    if (status != NA_PLUGIN_SUCCESS)
        return status;
    info->max_unexpected_size = info->unexpected_header_size + LEAST_MESSAGE;
    info->max_expected_size = info->expected_header_size + LEAST_MESSAGE + 44;
    info->max_rma_size = LEAST_RMA;
    info->max_tag = 255;
    limits.max_unexpected_size = info->max_unexpected_size;
    limits.max_expected_size = info->max_expected_size;
    return NA_PLUGIN_SUCCESS;
}

static int32_t send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    if (size > limits.max_unexpected_size || tag > 255)
        return NA_PLUGIN_MSGSIZE;
    return real.msg_send_unexpected(context, op, buf, size, data, dest, dest_id, tag);
}

static int32_t send_expected(struct na_plugin_context *context, void *op, const void *buf,
                             uint64_t size, void *data, struct na_plugin_addr *dest,
                             uint32_t dest_id, uint32_t tag)
{
    if (size > limits.max_expected_size || tag > 255)
        return NA_PLUGIN_MSGSIZE;
    return real.msg_send_expected(context, op, buf, size, data, dest, dest_id, tag);
}

static int32_t recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data, struct na_plugin_addr *source, uint32_t source_id,
                             uint32_t tag)
{
    if (size > limits.max_expected_size || tag > 255)
        return NA_PLUGIN_MSGSIZE;
    return real.msg_recv_expected(context, op, buf, size, data, source, source_id, tag);
}

static int32_t put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    if (length > LEAST_RMA)
        return NA_PLUGIN_OVERFLOW;
    return real.put(context, op, local, local_offset, remote, remote_offset, length, addr,
                    remote_id);
}

static int32_t get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    if (length > LEAST_RMA)
        return NA_PLUGIN_OVERFLOW;
    return real.get(context, op, local, local_offset, remote, remote_offset, length, addr,
                    remote_id);
}
#endif

#if BROKEN_WHAT == TAGS
static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    real_host->op_complete_recv(op, status, size, source, tag + 1);
}
#endif

#if BROKEN_WHAT == PAST || BROKEN_WHAT == OVERRUN
static int32_t recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data)
{
    const int32_t status = real.msg_recv_unexpected(context, op, buf, size, data);

    if (BROKEN_WHAT == PAST)
        ((uint8_t *) buf)[size] = 1;
    else
        ((uint8_t *) op)[real.op_size] = 1;
    return status;
}
#endif

#if BROKEN_WHAT == LEAKS
static int32_t finalize(struct na_plugin_class *na_class)
{
    (void) real_host->mem_alloc(100, 0);
    return real.finalize(na_class);
}
#endif

#if BROKEN_WHAT == GROWS
static char *volatile kept;

static int32_t finalize(struct na_plugin_class *na_class)
{
    kept = strdup("kept");
    return real.finalize(na_class);
}
#endif

#if BROKEN_WHAT == EXPORTS
NA_PLUGIN_EXPORT int broken_exports(void);

int broken_exports(void)
{
    return 1;
}
#endif

#if BROKEN_WHAT == BLOCKS || BROKEN_WHAT == FAILS
static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    const uint32_t before = *done;
    const int32_t status = real.poll(context, done);

#    if BROKEN_WHAT == BLOCKS
    if (status == NA_PLUGIN_SUCCESS && *done == before)
        (void) usleep(20000);
#    else
    if (*done != before && is_due())
        return NA_PLUGIN_HOSTUNREACH;
#    endif
    return status;
}
#endif

#if BROKEN_WHAT == DROPS
static int32_t send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    if (!is_due())
        return real.msg_send_unexpected(context, op, buf, size, data, dest, dest_id, tag);
    real_host->op_complete(op, NA_PLUGIN_SUCCESS);
    return NA_PLUGIN_SUCCESS;
}
#endif

#if BROKEN_WHAT == ORDER || BROKEN_WHAT == ASIDE
struct held {
    struct na_plugin_context *context;
    void *op, *data;
    const void *buf;
    uint64_t size;
    struct na_plugin_addr *dest;
    uint32_t dest_id, tag, polls;
};

#    define HELD_POLLS 100000u /* after so many polls, a held message is sent in any case */

static struct held held;

static void let_go(void)
{
    struct held send = held;

    held.op = NULL;
    if (send.op != NULL &&
        real.msg_send_unexpected(send.context, send.op, send.buf, send.size, send.data, send.dest,
                                 send.dest_id, send.tag) != NA_PLUGIN_SUCCESS)
        real_host->op_complete(send.op, NA_PLUGIN_IO_ERROR);
}

static int32_t send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    int32_t status;

    if (BROKEN_WHAT == ASIDE && dest_id == 0)
        return real.msg_send_unexpected(context, op, buf, size, data, dest, dest_id, tag);
    if (held.op == NULL && atomic_fetch_add(&times, 1) % EVERY == EVERY - 1) {
        held = (struct held){context, op, data, buf, size, dest, dest_id, tag, 0};
        return NA_PLUGIN_SUCCESS;
    }
    status = real.msg_send_unexpected(context, op, buf, size, data, dest, dest_id, tag);
    if (BROKEN_WHAT == ORDER || (context == held.context && dest_id == held.dest_id))
        let_go();
    return status;
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    const int32_t status = real.poll(context, done);

    if (BROKEN_WHAT == ORDER || ++held.polls > HELD_POLLS)
        let_go();
    return status;
}
#endif

#if BROKEN_WHAT == LATE
static void *waiting[4096];
static uint32_t waiting_count, stopping;

static void complete(void *op, int32_t status)
{
    if (stopping && waiting_count < 4096)
        waiting[waiting_count++] = op;
    else
        real_host->op_complete(op, status);
}

static int32_t context_stop(struct na_plugin_context *context)
{
    int32_t status;

    stopping = 1;
    status = real.context_stop(context);
    stopping = 0;
    return status;
}

static int32_t context_destroy(struct na_plugin_context *context)
{
    for (uint32_t i = 0; i < waiting_count; i++)
        real_host->op_complete(waiting[i], NA_PLUGIN_CANCELED);
    waiting_count = 0;
    return real.context_destroy(context);
}
#endif

#if BROKEN_WHAT == LINGERS
static int32_t context_stop(struct na_plugin_context *context)
{
    const uint64_t end = real_host->clock_ns() + UINT64_C(40000000);
    uint32_t count = 0;

    while (real_host->clock_ns() < end)
        (void) real.poll(context, &count);
    return real.context_stop(context);
}
#endif

#if BROKEN_WHAT == HAUNTS
static uint8_t *haunted; /* the memory of the handle created last */
static uint32_t stopped;

static int32_t mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                          uint32_t flags, struct na_plugin_mem **mem_p)
{
    haunted = base;
    return real.mem_create(na_class, base, length, flags, mem_p);
}

static int32_t context_stop(struct na_plugin_context *context)
{
    stopped++;
    return real.context_stop(context);
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    if (stopped != 0)
        haunted[5000]++;
    return real.poll(context, done);
}
#endif

#if BROKEN_WHAT == REFUSES
static int32_t recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data, struct na_plugin_addr *source, uint32_t source_id,
                             uint32_t tag)
{
    if (atomic_fetch_add(&times, 1) % EVERY != EVERY - 1)
        return real.msg_recv_expected(context, op, buf, size, data, source, source_id, tag);
    real_host->op_complete(op, NA_PLUGIN_NOMEM);
    return NA_PLUGIN_NOMEM;
}
#endif

#if BROKEN_WHAT == STUCK || BROKEN_WHAT == DOUBTS
static int32_t cancel(struct na_plugin_context *context, void *op)
{
    (void) context;
    (void) op;
    return NA_PLUGIN_SUCCESS;
}
#endif

#if BROKEN_WHAT == MUTE
static int32_t peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                               void *arg)
{
    (void) na_class;
    (void) report;
    (void) arg;
    return NA_PLUGIN_SUCCESS;
}

static const void *get_extension(const char *id)
{
    static const struct na_plugin_peer_events events = {{sizeof(events), 0}, peer_events_set};

    return strcmp(id, NA_PLUGIN_EXT_PEER_EVENTS) == 0 ? &events : real.get_extension(id);
}
#endif

#if BROKEN_WHAT == SHRINKS
static void counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg)
{
    (void) na_class;
    report(arg, "left", UINT64_MAX - times++);
}

static const void *get_extension(const char *id)
{
    static const struct na_plugin_counters counters = {{sizeof(counters), 0}, counters_get};

    return strcmp(id, NA_PLUGIN_EXT_COUNTERS) == 0 ? &counters : real.get_extension(id);
}
#endif

#if BROKEN_WHAT == OFFSET
static int32_t put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    return real.put(context, op, local, local_offset, remote,
                    remote_offset + (remote_offset > 0 ? 1 : 0), length, addr, remote_id);
}
#endif

#if BROKEN_WHAT == LIES
static int32_t get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    if (atomic_fetch_add(&times, 1) != 1)
        return real.get(context, op, local, local_offset, remote, remote_offset, length, addr,
                        remote_id);
    real_host->op_complete(op, NA_PLUGIN_SUCCESS);
    return NA_PLUGIN_SUCCESS;
}
#endif

#if BROKEN_WHAT == DOZES
#    define NAPS 60 /* more than half of the polls that the check measures */

struct get {
    struct na_plugin_context *context;
    void *op;
    struct na_plugin_mem *local, *remote;
    uint64_t local_offset, remote_offset, length;
    struct na_plugin_addr *addr;
    uint32_t remote_id, naps;
};

static struct get waiting;

static int32_t get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                   uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                   uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    if (waiting.op != NULL)
        return NA_PLUGIN_AGAIN;
    waiting = (struct get){context,       op,     local, remote,    local_offset,
                           remote_offset, length, addr,  remote_id, NAPS};
    return NA_PLUGIN_SUCCESS;
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    const struct get now = waiting;

    if (now.op != NULL) {
        (void) usleep(2000);
        waiting.naps--;
        if (waiting.naps == 0) {
            waiting.op = NULL;
            if (real.get(now.context, now.op, now.local, now.local_offset, now.remote,
                         now.remote_offset, now.length, now.addr,
                         now.remote_id) != NA_PLUGIN_SUCCESS)
                real_host->op_complete(now.op, NA_PLUGIN_IO_ERROR);
        }
    }
    return real.poll(context, done);
}
#endif

#if BROKEN_WHAT == CLINGS
static const char *given;
static char asked[128];

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    given = init->protocol;
    (void) strncpy(asked, given, sizeof(asked) - 1);
    return real.initialize(init, host_class, class_p, info);
}

static int32_t addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    if (strcmp(given, asked) != 0)
        return NA_PLUGIN_FAULT;
    return real.addr_to_string(na_class, addr, buf, size);
}
#endif

#if BROKEN_WHAT == WIDE
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    info->max_segments = 0;
    return status;
}
#endif

#if BROKEN_WHAT == PRINTS
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    static const char text[] = "not ok 1 - opened\n";

    if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
        return NA_PLUGIN_IO_ERROR;
    return real.initialize(init, host_class, class_p, info);
}
#endif

#if BROKEN_WHAT == SPREADS
static void *expecting[1000];
static uint32_t expecting_count, died;

static int32_t recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data, struct na_plugin_addr *source, uint32_t source_id,
                             uint32_t tag)
{
    if (expecting_count < 1000)
        expecting[expecting_count++] = op;
    return real.msg_recv_expected(context, op, buf, size, data, source, source_id, tag);
}

static void complete(void *op, int32_t status)
{
    died |= status == NA_PLUGIN_HOSTUNREACH;
    real_host->op_complete(op, status);
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    died |= status == NA_PLUGIN_HOSTUNREACH;
    real_host->op_complete_recv(op, status, size, source, tag);
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    const int32_t status = real.poll(context, done);

    for (uint32_t i = 0; died && i < expecting_count; i++)
        if (expecting[i] != expecting[expecting_count - 1])
            (void) real.cancel(context, expecting[i]);
    died = 0;
    return status;
}
#endif

#if BROKEN_WHAT == NUMB
static int32_t poll_get_fd(struct na_plugin_context *context)
{
    static int ends[2] = {-1, -1};

    (void) context;
    if (ends[0] < 0 && pipe(ends) != 0)
        return -1;
    return ends[0];
}
#endif

#if BROKEN_WHAT == CRASHES
static int32_t addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    *size = 0;
    *(volatile char *) buf = '\0'; /* crashes if there is no buffer */
    return real.addr_to_string(na_class, addr, buf, size);
}
#endif

#if BROKEN_WHAT == SILENT
static void complete(void *op, int32_t status)
{
    if (status != NA_PLUGIN_HOSTUNREACH)
        real_host->op_complete(op, status);
}
#endif

#if BROKEN_WHAT == NAMELESS
static int32_t addr_lookup(struct na_plugin_class *na_class, const char *name,
                           struct na_plugin_addr **addr_p)
{
    const int32_t status = real.addr_lookup(na_class, name, addr_p);

    return status == NA_PLUGIN_INVALID_ARG ? real.addr_self(na_class, addr_p) : status;
}
#endif

#if BROKEN_WHAT == TALLIES
static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    const uint32_t before = *done;
    const int32_t status = real.poll(context, done);

    *done += *done - before;
    return status;
}
#endif

#if BROKEN_WHAT == INSISTS
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_init other = *init;

    other.progress_mode &= ~NA_PLUGIN_PROGRESS_NO_RETRY;
    return real.initialize(&other, host_class, class_p, info);
}
#endif

#if BROKEN_WHAT == HOARDS
#    define HOARD_MAGIC UINT64_C(0x6120686f61726421)
#    define HOARD_FRONT 128u /* before the operation; keeps its alignment */

static uint64_t *front_of(void *op)
{
    return (uint64_t *) (void *) ((uint8_t *) op - HOARD_FRONT);
}

static void complete(void *op, int32_t status)
{
    if (*front_of(op) == HOARD_MAGIC)
        real_host->mem_free(front_of(op));
    else
        real_host->op_complete(op, status);
}

/* The copy of the message is placed after the operation. */
static int32_t send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag)
{
    uint64_t *front = real_host->mem_alloc(HOARD_FRONT + real.op_size + size, HOARD_FRONT);
    uint8_t *own = (uint8_t *) front + HOARD_FRONT;
    int32_t status;

    if (front == NULL)
        return NA_PLUGIN_NOMEM;
    *front = HOARD_MAGIC;
    memcpy(own + real.op_size, buf, size);
    status =
        real.msg_send_unexpected(context, own, own + real.op_size, size, data, dest, dest_id, tag);
    if (status == NA_PLUGIN_SUCCESS)
        real_host->op_complete(op, NA_PLUGIN_SUCCESS);
    else
        real_host->mem_free(front);
    return status;
}
#endif

#if BROKEN_WHAT == EXCEEDS
static int32_t mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                          uint32_t flags, struct na_plugin_mem **mem_p)
{
    return real.mem_create(na_class, base, length + 32, flags, mem_p);
}

/* The check does not demand bounds of native RMA, so that this capability is hidden. */
static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    const int32_t status = real.initialize(init, host_class, class_p, info);

    info->capabilities &= ~NA_PLUGIN_CAP_RMA_NATIVE;
    return status;
}
#endif

#if BROKEN_WHAT == HALVES
#    define HALVES_MOST  16384u
#    define HALVES_LEAST 1024u
#    define HALVES_POLLS 8u

static struct {
    void *op, *buf;
    uint64_t size;
    uint32_t tag, polls, is_cancelled;
    uint8_t message[HALVES_MOST];
} filling;

static int32_t recv_expected(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                             void *data, struct na_plugin_addr *source, uint32_t source_id,
                             uint32_t tag)
{
    if (size < HALVES_LEAST || size > HALVES_MOST || filling.op != NULL)
        return real.msg_recv_expected(context, op, buf, size, data, source, source_id, tag);
    filling.op = op;
    filling.buf = buf;
    filling.is_cancelled = 0;
    return real.msg_recv_expected(context, op, filling.message, size, data, source, source_id, tag);
}

static void complete(void *op, int32_t status)
{
    if (op == filling.op)
        filling.op = NULL;
    real_host->op_complete(op, status);
}

static void complete_recv(void *op, int32_t status, uint64_t size, struct na_plugin_addr *source,
                          uint32_t tag)
{
    if (op != filling.op || status != NA_PLUGIN_SUCCESS) {
        if (op == filling.op)
            filling.op = NULL;
        real_host->op_complete_recv(op, status, size, source, tag);
        return;
    }
    memcpy(filling.buf, filling.message, size / 2);
    filling.size = size;
    filling.tag = tag;
    filling.polls = HALVES_POLLS;
}

static int32_t poll_badly(struct na_plugin_context *context, uint32_t *done)
{
    if (filling.polls > 0 && --filling.polls == 0) {
        void *op = filling.op;

        memcpy((uint8_t *) filling.buf + filling.size / 2, filling.message + filling.size / 2,
               filling.size - filling.size / 2);
        filling.op = NULL;
        if (!filling.is_cancelled)
            real_host->op_complete_recv(op, NA_PLUGIN_SUCCESS, filling.size, NULL, filling.tag);
    }
    return real.poll(context, done);
}

static int32_t cancel(struct na_plugin_context *context, void *op)
{
    if (op != filling.op || filling.polls == 0)
        return real.cancel(context, op);
    if (!filling.is_cancelled)
        real_host->op_complete(op, NA_PLUGIN_CANCELED);
    filling.is_cancelled = 1;
    return NA_PLUGIN_SUCCESS;
}
#endif

static void change(void)
{
#if BROKEN_WHAT == LOSES || BROKEN_WHAT == TWICE || BROKEN_WHAT == LATE ||     \
    BROKEN_WHAT == SILENT || BROKEN_WHAT == TOUCHES || BROKEN_WHAT == KEEPS || \
    BROKEN_WHAT == SPREADS || BROKEN_WHAT == HOARDS || BROKEN_WHAT == HALVES
    host.op_complete = complete;
#endif
#if BROKEN_WHAT == TOUCHES
    plugin.op_size = real.op_size + 8;
#endif
#if BROKEN_WHAT == SOURCE || BROKEN_WHAT == TAGS || BROKEN_WHAT == COUNTS || \
    BROKEN_WHAT == KEEPS || BROKEN_WHAT == SPREADS || BROKEN_WHAT == HALVES
    host.op_complete_recv = complete_recv;
#endif
#if BROKEN_WHAT == SOURCE || BROKEN_WHAT == COUNTS || BROKEN_WHAT == WIDE || \
    BROKEN_WHAT == PRINTS || BROKEN_WHAT == INSISTS
    plugin.initialize = initialize;
#elif BROKEN_WHAT == BOASTS
    plugin.initialize = initialize;
    plugin.capabilities |= NA_PLUGIN_CAP_FORWARD_PROG;
#elif BROKEN_WHAT == KEEPS
    plugin.cleanup = cleanup;
#elif BROKEN_WHAT == STRAYS
    plugin.msg_send_expected = send_expected;
#elif BROKEN_WHAT == DEAF
    plugin.msg_recv_unexpected = recv_unexpected;
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == PAST || BROKEN_WHAT == OVERRUN
    plugin.msg_recv_unexpected = recv_unexpected;
#elif BROKEN_WHAT == LEAKS || BROKEN_WHAT == GROWS
    plugin.finalize = finalize;
#elif BROKEN_WHAT == BLOCKS || BROKEN_WHAT == FAILS || BROKEN_WHAT == TALLIES
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == DROPS || BROKEN_WHAT == HOARDS
    plugin.msg_send_unexpected = send_unexpected;
#elif BROKEN_WHAT == ORDER || BROKEN_WHAT == ASIDE
    plugin.msg_send_unexpected = send_unexpected;
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == LATE
    plugin.context_stop = context_stop;
    plugin.context_destroy = context_destroy;
#elif BROKEN_WHAT == LINGERS
    plugin.context_stop = context_stop;
#elif BROKEN_WHAT == HAUNTS
    plugin.mem_create = mem_create;
    plugin.get_extension = NULL; /* handles with segments would not use mem_create */
    plugin.context_stop = context_stop;
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == REFUSES
    plugin.msg_recv_expected = recv_expected;
#elif BROKEN_WHAT == STUCK
    plugin.cancel = cancel;
#elif BROKEN_WHAT == DOUBTS
    plugin.cancel_trusted = cancel;
#elif BROKEN_WHAT == SHRINKS || BROKEN_WHAT == MUTE
    plugin.get_extension = get_extension;
#elif BROKEN_WHAT == SHOUTS
    static const char *const options[] = {"rma", "RMA", NULL};

    plugin.option_names = options;
#elif BROKEN_WHAT == OFFSET
    plugin.put = put;
#elif BROKEN_WHAT == NUMB
    plugin.poll_get_fd = poll_get_fd;
    plugin.poll_wait = NULL;
#elif BROKEN_WHAT == CRASHES
    plugin.addr_to_string = addr_to_string;
#elif BROKEN_WHAT == NAMELESS
    plugin.addr_lookup = addr_lookup;
#elif BROKEN_WHAT == LIES
    plugin.get = get;
#elif BROKEN_WHAT == DOZES
    plugin.get = get;
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == CLINGS
    plugin.initialize = initialize;
    plugin.addr_to_string = addr_to_string;
#elif BROKEN_WHAT == SPREADS
    plugin.msg_recv_expected = recv_expected;
    plugin.poll = poll_badly;
#elif BROKEN_WHAT == EXCEEDS
    plugin.mem_create = mem_create;
    plugin.initialize = initialize;
#elif BROKEN_WHAT == HALVES
    plugin.msg_recv_expected = recv_expected;
    plugin.poll = poll_badly;
    plugin.cancel = cancel;
#elif BROKEN_WHAT == SMALL
    plugin.initialize = initialize;
    plugin.msg_send_unexpected = send_unexpected;
    plugin.msg_send_expected = send_expected;
    plugin.msg_recv_expected = recv_expected;
    plugin.put = put;
    plugin.get = get;
#endif
}

int32_t na_plugin_entry_v1(const struct na_host *host_p, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    void *file = dlopen(BROKEN_OF, RTLD_NOW | RTLD_LOCAL);
    void *symbol = file != NULL ? dlsym(file, NA_PLUGIN_ENTRY_SYMBOL) : NULL;
    int32_t (*entry)(const struct na_host *, const struct na_plugin **, const char **);
    const struct na_plugin *table = NULL;
    int32_t status;

    if (symbol == NULL) {
        *reason_p = "the plugin to be broken cannot be loaded";
        return NA_PLUGIN_NOENTRY;
    }
    memcpy(&entry, &symbol, sizeof(entry));
    real_host = host_p;
    host = *host_p;
    host.size = sizeof(host);
    (void) times;
    change();
    status = entry(&host, &table, reason_p);
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    real = plugin = *table;
    plugin.size = sizeof(plugin);
    plugin.name = BROKEN_NAME;
    change();
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}
