/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts by cross-memory attach that are under way. The kernel checks no registration, so a put that
 * was allowed when it began could write to memory that was deregistered and reused meanwhile. So
 * the origin first writes the memory's digest into the owner's segment, then checks the
 * registration; the owner first withdraws the registration, then waits while the digest is there.
 */

#include "sm.h"

#include <sched.h>
#include <unistd.h>

#define SM_WRITER_SPINS    65536u                    /* without a free key, then put by copying */
#define SM_WRITER_YIELD_NS UINT64_C(1000000)         /* the owner yields so long, then sleeps */
#define SM_WRITER_CHECK_NS UINT64_C(20000000)        /* between two checks of a writer's process */
#define SM_WRITER_STOP_NS  UINT64_C(10 * 1000000000) /* longest wait, for a stopped process */

static struct sm_writer *sm_writer_find(struct na_plugin_addr *peer);
static struct sm_writer *sm_writer_claim(struct na_plugin_addr *peer, uint32_t count);
static bool sm_writer_take(struct na_plugin_addr *peer, struct sm_writer *writer, uint64_t owner);
static bool sm_writer_is_dead(const struct na_plugin_class *na_class,
                              const struct sm_writer *writer);
static struct sm_writer *sm_writers_of(struct sm_segment_header *header);
static bool sm_writer_await(const struct na_plugin_class *na_class, const struct sm_writer *writer,
                            const _Atomic uint64_t *mark, uint64_t digest, uint64_t end);

/*
 * Reserves the table of writers when writable memory is registered the first time. Without memory
 * for the table, puts to us are copied. The registry's lock is held.
 */
void sm_writers_offer(struct na_plugin_class *na_class)
{
    struct sm_segment_header *header = na_class->segment.header;
    uint32_t count = SM_WRITERS;

    if (na_class->forked || sm_load(&header->writers) != 0)
        return;
    if (sm_reserve(na_class->segment.fd, SM_WRITERS_OFFSET, SM_WRITERS * sizeof(struct sm_writer),
                   NA_PLUGIN_LOG_WARNING) != NA_PLUGIN_SUCCESS)
        count = SM_WRITERS_ABSENT;
    sm_store_release(&header->writers, count);
}

/*
 * Announces a put to the peer's memory with that digest. The caller passes `*mark_p` to
 * sm_writer_leave(). NA_PLUGIN_AGAIN when there is no free key.
 */
int32_t sm_writer_enter(struct na_plugin_addr *peer, uint64_t digest, _Atomic uint64_t **mark_p)
{
    struct sm_writer *writer = sm_load_acquire(&peer->writer);

    if (kit_unlikely(writer == NULL) && (writer = sm_writer_find(peer)) == NULL)
        return NA_PLUGIN_AGAIN;
    for (uint32_t spins = 1; spins < SM_WRITER_SPINS; spins++) {
        for (uint32_t i = 0; i < SM_WRITER_KEYS; i++) {
            uint64_t none = 0;

            if (!atomic_compare_exchange_strong_explicit(
                    &writer->keys[i], &none, digest, memory_order_seq_cst, memory_order_relaxed))
                continue;
            atomic_thread_fence(memory_order_seq_cst);
            *mark_p = &writer->keys[i];
            return NA_PLUGIN_SUCCESS;
        }
        if (spins % 64 == 0) /* other threads of this process are writing */
            (void) sched_yield();
        else
            kit_cpu_relax();
    }
    return NA_PLUGIN_AGAIN;
}

void sm_writer_leave(_Atomic uint64_t *mark)
{
    sm_store_release(mark, 0);
}

/*
 * Waits until no put writes to memory of which the registration was withdrawn before the call.
 * False when a process that was stopped in the middle of a put may still write to it.
 */
bool sm_writers_await(struct na_plugin_class *na_class, uint64_t digest)
{
    struct sm_segment_header *header = na_class->segment.header;
    struct sm_writer *writers = sm_writers_of(header);
    uint64_t end = 0;
    uint32_t used;

    if (na_class->forked)
        return true;
    atomic_thread_fence(memory_order_seq_cst);
    used = sm_load(&header->writers_used);
    for (uint32_t i = 0; i < used && i < SM_WRITERS; i++)
        for (uint32_t k = 0; k < SM_WRITER_KEYS; k++) {
            if (kit_likely(sm_load_acquire(&writers[i].keys[k]) != digest))
                continue;
            if (end == 0)
                end = kit_host->clock_ns() + SM_WRITER_STOP_NS;
            if (!sm_writer_await(na_class, &writers[i], &writers[i].keys[k], digest, end)) {
                SM_LOG_WARNING("a process has been writing to deregistered memory for 10 s and is "
                               "not waited for any longer: is it stopped? What it still writes is "
                               "lost or harms what uses the memory now");
                return false;
            }
        }
    return true;
}

/* Frees our entry when the peer is destroyed. No put to its memory is under way. */
void sm_writer_forget(struct na_plugin_addr *peer)
{
    struct sm_writer *writer = sm_load(&peer->writer);

    if (writer != NULL && !peer->na_class->forked)
        sm_store_release(&writer->owner, 0);
}

/* Returns our entry in the peer's table of writers, claimed once, or NULL. */
static struct sm_writer *sm_writer_find(struct na_plugin_addr *peer)
{
    uint32_t count = sm_load_acquire(&peer->base->writers);
    struct sm_writer *writer;

    if (count == 0 || count > SM_WRITERS)
        return NULL;
    kit_lock_take(&peer->na_class->lock);
    writer = sm_load_acquire(&peer->writer);
    if (writer == NULL) {
        writer = sm_writer_claim(peer, count);
        sm_store_release(&peer->writer, writer);
    }
    kit_lock_drop(&peer->na_class->lock);
    return writer;
}

/* Claims a free entry, or else one whose process is dead. */
static struct sm_writer *sm_writer_claim(struct na_plugin_addr *peer, uint32_t count)
{
    struct sm_writer *writers = sm_writers_of(peer->base);

    for (uint32_t i = 0; i < count; i++)
        if (sm_load_acquire(&writers[i].owner) == 0 && sm_writer_take(peer, &writers[i], 0))
            return &writers[i];
    for (uint32_t i = 0; i < count; i++) {
        uint64_t owner = sm_load_acquire(&writers[i].owner);

        if (owner != 0 && sm_writer_is_dead(peer->na_class, &writers[i]) &&
            sm_writer_take(peer, &writers[i], owner))
            return &writers[i];
    }
    return NULL;
}

static bool sm_writer_take(struct na_plugin_addr *peer, struct sm_writer *writer, uint64_t owner)
{
    const struct na_plugin_class *na_class = peer->na_class;
    uint32_t needed = (uint32_t) (writer - sm_writers_of(peer->base)) + 1;
    uint32_t used = sm_load(&peer->base->writers_used);

    if (!atomic_compare_exchange_strong_explicit(&writer->owner, &owner,
                                                 sm_class_owner(na_class, SM_SLOT_CLAIMED),
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    for (uint32_t i = 0; i < SM_WRITER_KEYS; i++)
        sm_store(&writer->keys[i], 0);
    sm_store(&writer->process, na_class->segment.header->process);
    sm_store_release(&writer->owner, sm_class_owner(na_class, SM_SLOT_READY));
    while (used < needed &&
           !atomic_compare_exchange_weak_explicit(&peer->base->writers_used, &used, needed,
                                                  memory_order_seq_cst, memory_order_relaxed))
        ;
    return true;
}

/* `process` is not valid yet in an entry that is only claimed. */
static bool sm_writer_is_dead(const struct na_plugin_class *na_class,
                              const struct sm_writer *writer)
{
    uint64_t owner = sm_load_acquire(&writer->owner);
    uint64_t process = sm_load(&writer->process);
    uint32_t state = sm_owner_state(owner), pid = sm_owner_pid(owner);

    if (sm_owner_pack(state, pid, na_class->pid_namespace) != owner)
        return false;
    return kit_process_is_dead(pid, state == SM_SLOT_READY ? process : 0);
}

static struct sm_writer *sm_writers_of(struct sm_segment_header *header)
{
    return (struct sm_writer *) (void *) ((uint8_t *) header + SM_WRITERS_OFFSET);
}

/*
 * Waits for one put. A piece takes some hundred microseconds, more if its process gets no CPU.
 * False when `end` has passed.
 */
static bool sm_writer_await(const struct na_plugin_class *na_class, const struct sm_writer *writer,
                            const _Atomic uint64_t *mark, uint64_t digest, uint64_t end)
{
    uint64_t began = kit_host->clock_ns(), checked = began;

    for (uint32_t spins = 1; sm_load_acquire(mark) == digest; spins++) {
        uint64_t now;

        if (spins % 64 != 0) {
            kit_cpu_relax();
            continue;
        }
        now = kit_host->clock_ns();
        if (now - began < SM_WRITER_YIELD_NS)
            (void) sched_yield();
        else
            (void) usleep(200);
        if (now - checked < SM_WRITER_CHECK_NS)
            continue;
        checked = now;
        if (sm_writer_is_dead(na_class, writer))
            return true;
        if (now > end)
            return false;
    }
    return true;
}
