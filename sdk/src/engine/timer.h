/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers of a context: a timer wheel that arms, disarms and fires each timer in constant time. A
 * thread that polls the context fires the timers that are due; without armed timers this costs one
 * load per poll.
 */
#ifndef HG_ENGINE_TIMER_H
#define HG_ENGINE_TIMER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A tick is 2^16 ns, so that six levels of 64 slots reach 2^32 ms. */
#define HG_TIMER_TICK_BITS 16u
#define HG_TIMER_SLOT_BITS 6u
#define HG_TIMER_SLOTS     (1u << HG_TIMER_SLOT_BITS)
#define HG_TIMER_LEVELS    6u
#define HG_TIMER_NEVER     UINT64_MAX

#define HG_NS_PER_MS       UINT64_C(1000000)

/* Monotonic time in nanoseconds. */
uint64_t hg_clock_ns(void);

/*
 * Embedded in an operation with a deadline. `fire` cancels the operation, then NA's callbacks run,
 * then `finish` ends whatever the transport did not. Both run in the polling thread, with no lock
 * held. After `finish`, which may arm it again, the timer belongs to its owner.
 */
struct hg_timer {
    void (*fire)(struct hg_timer *timer);
    void (*finish)(struct hg_timer *timer);
    /* Guarded by the lock of the timers. */
    struct hg_timer *next;
    struct hg_timer **link; /* the pointer that points to this timer */
    uint64_t tick;
    uint32_t slot; /* index over all levels */
    bool is_armed;
};

struct hg_timers {
    _Atomic uint64_t next_ns;       /* no timer is due earlier; HG_TIMER_NEVER: none is armed */
    _Atomic uint64_t programmed_ns; /* when timer_fd becomes readable, or HG_TIMER_NEVER */
    pthread_mutex_t lock;           /* guards the members below */
    uint32_t count;                 /* number of armed timers */
    uint64_t tick;                  /* timers up to this tick have fired */
    int timer_fd;                   /* in the context's epoll set; -1: not created yet */
    uint64_t used[HG_TIMER_LEVELS]; /* bitmaps of slots that are not empty */
    struct hg_timer *slots[HG_TIMER_LEVELS * HG_TIMER_SLOTS];
};

void hg_timers_init(struct hg_timers *timers);
void hg_timers_fini(struct hg_timers *timers);

/* Disarm the timers that are due and return them, linked by next; NULL if there are none. */
struct hg_timer *hg_timers_advance(struct hg_timers *timers, uint64_t now_ns);

/* Arm a timer that is not armed. */
void hg_timers_add(struct hg_timers *timers, struct hg_timer *timer, uint64_t now_ns,
                   uint64_t at_ns);

/* Disarm a timer. False if it was not armed, or fires concurrently; true: it will not fire. */
bool hg_timers_remove(struct hg_timers *timers, struct hg_timer *timer);

/* If the timer is armed, have it fire at `at_ns` at the latest. */
void hg_timers_expedite(struct hg_timers *timers, struct hg_timer *timer, uint64_t at_ns);

static inline bool hg_timers_are_armed(const struct hg_timers *timers)
{
    return atomic_load_explicit(&timers->next_ns, memory_order_relaxed) != HG_TIMER_NEVER;
}

#endif /* HG_ENGINE_TIMER_H */
