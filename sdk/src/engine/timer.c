/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hierarchical timer wheel. The distance of a timer's tick selects its level; when time reaches a
 * slot of a higher level, the timers in that slot move down. So a timer moves at most once per
 * level.
 */
#include "engine/timer.h"

#include "util/clock.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

static void hg_timers_insert(struct hg_timers *timers, struct hg_timer *timer);
static void hg_timers_unlink(struct hg_timers *timers, struct hg_timer *timer);
static struct hg_timer *hg_timers_collect(struct hg_timers *timers, uint64_t tick);
static uint64_t hg_timers_slots_between(uint64_t from, uint64_t to);
static void hg_timers_set_next(struct hg_timers *timers);
static uint64_t hg_timers_tick_at(uint64_t at_ns);

uint64_t hg_clock_ns(void)
{
    return util_clock_ns();
}

void hg_timers_init(struct hg_timers *timers)
{
    memset(timers, 0, sizeof(*timers));
    atomic_init(&timers->next_ns, HG_TIMER_NEVER);
    atomic_init(&timers->programmed_ns, HG_TIMER_NEVER);
    timers->timer_fd = -1;
    (void) pthread_mutex_init(&timers->lock, NULL);
}

void hg_timers_fini(struct hg_timers *timers)
{
    if (timers->timer_fd >= 0)
        (void) close(timers->timer_fd);
    (void) pthread_mutex_destroy(&timers->lock);
}

struct hg_timer *hg_timers_advance(struct hg_timers *timers, uint64_t now_ns)
{
    const uint64_t tick = now_ns >> HG_TIMER_TICK_BITS;
    struct hg_timer *passed = NULL, *due = NULL, **last = &due;

    (void) pthread_mutex_lock(&timers->lock);
    if (tick > timers->tick)
        passed = hg_timers_collect(timers, tick);
    while (passed != NULL) {
        struct hg_timer *timer = passed;

        passed = timer->next;
        if (timer->tick > tick) {
            hg_timers_insert(timers, timer);
            continue;
        }
        timer->is_armed = false;
        timers->count--;
        *last = timer;
        last = &timer->next;
    }
    *last = NULL;
    hg_timers_set_next(timers);
    (void) pthread_mutex_unlock(&timers->lock);
    return due;
}

void hg_timers_add(struct hg_timers *timers, struct hg_timer *timer, uint64_t now_ns,
                   uint64_t at_ns)
{
    (void) pthread_mutex_lock(&timers->lock);
    /* An empty wheel is not turned, so its tick is behind. */
    if (timers->count == 0 && now_ns >> HG_TIMER_TICK_BITS > timers->tick)
        timers->tick = now_ns >> HG_TIMER_TICK_BITS;
    timer->tick = hg_timers_tick_at(at_ns);
    timer->is_armed = true;
    timers->count++;
    hg_timers_insert(timers, timer);
    hg_timers_set_next(timers);
    (void) pthread_mutex_unlock(&timers->lock);
}

bool hg_timers_remove(struct hg_timers *timers, struct hg_timer *timer)
{
    bool was_armed;

    (void) pthread_mutex_lock(&timers->lock);
    was_armed = timer->is_armed;
    if (was_armed) {
        hg_timers_unlink(timers, timer);
        timer->is_armed = false;
        timers->count--;
        /* Otherwise next_ns may be early: a vain poll costs less than a search on each disarm. */
        if (timers->count == 0)
            hg_timers_set_next(timers);
    }
    (void) pthread_mutex_unlock(&timers->lock);
    return was_armed;
}

void hg_timers_expedite(struct hg_timers *timers, struct hg_timer *timer, uint64_t at_ns)
{
    const uint64_t tick = hg_timers_tick_at(at_ns);

    (void) pthread_mutex_lock(&timers->lock);
    if (timer->is_armed && timer->tick > tick) {
        hg_timers_unlink(timers, timer);
        timer->tick = tick;
        hg_timers_insert(timers, timer);
        hg_timers_set_next(timers);
    }
    (void) pthread_mutex_unlock(&timers->lock);
}

/* Link a timer into its slot. A timer that is due already fires at the next tick. */
static void hg_timers_insert(struct hg_timers *timers, struct hg_timer *timer)
{
    uint64_t tick = timer->tick > timers->tick ? timer->tick : timers->tick + 1;
    uint64_t distance = tick - timers->tick;
    unsigned int level = (63u - (unsigned int) __builtin_clzll(distance)) / HG_TIMER_SLOT_BITS;
    struct hg_timer **first;
    uint32_t slot;

    if (level >= HG_TIMER_LEVELS) {
        level = HG_TIMER_LEVELS - 1;
        tick = timers->tick + (UINT64_C(1) << HG_TIMER_LEVELS * HG_TIMER_SLOT_BITS) - 1;
    }
    slot = (uint32_t) (tick >> level * HG_TIMER_SLOT_BITS) % HG_TIMER_SLOTS;
    timers->used[level] |= UINT64_C(1) << slot;
    timer->slot = level * HG_TIMER_SLOTS + slot;
    first = &timers->slots[timer->slot];
    timer->next = *first;
    timer->link = first;
    if (timer->next != NULL)
        timer->next->link = &timer->next;
    *first = timer;
}

static void hg_timers_unlink(struct hg_timers *timers, struct hg_timer *timer)
{
    *timer->link = timer->next;
    if (timer->next != NULL)
        timer->next->link = timer->link;
    if (timers->slots[timer->slot] == NULL)
        timers->used[timer->slot / HG_TIMER_SLOTS] &=
            ~(UINT64_C(1) << timer->slot % HG_TIMER_SLOTS);
}

/* Turn the wheel to `tick`, and return the timers of all slots that it passes. */
static struct hg_timer *hg_timers_collect(struct hg_timers *timers, uint64_t tick)
{
    struct hg_timer *all = NULL;
    unsigned int level;

    for (level = 0; level < HG_TIMER_LEVELS; level++) {
        uint64_t from = timers->tick >> level * HG_TIMER_SLOT_BITS;
        uint64_t to = tick >> level * HG_TIMER_SLOT_BITS;
        uint64_t slots = timers->used[level] & hg_timers_slots_between(from, to);

        timers->used[level] &= ~slots;
        while (slots != 0) {
            uint32_t slot = level * HG_TIMER_SLOTS + (uint32_t) __builtin_ctzll(slots);
            struct hg_timer **last = &timers->slots[slot];

            while (*last != NULL)
                last = &(*last)->next;
            *last = all;
            all = timers->slots[slot];
            timers->slots[slot] = NULL;
            slots &= slots - 1;
        }
    }
    timers->tick = tick;
    return all;
}

/* Bitmap of the slots after `from`, up to and including `to`. */
static uint64_t hg_timers_slots_between(uint64_t from, uint64_t to)
{
    const uint64_t count = to - from;
    const unsigned int first = (unsigned int) (from + 1) % HG_TIMER_SLOTS;
    uint64_t slots;

    if (count >= HG_TIMER_SLOTS)
        return UINT64_MAX;
    slots = (UINT64_C(1) << count) - 1;
    return slots << first | (first > 0 ? slots >> (HG_TIMER_SLOTS - first) : 0);
}

/* Set next_ns to the start of the first slot on any level that is not empty. */
static void hg_timers_set_next(struct hg_timers *timers)
{
    uint64_t next_ns = HG_TIMER_NEVER;
    unsigned int level;

    for (level = 0; level < HG_TIMER_LEVELS && timers->count > 0; level++) {
        uint64_t at = (timers->tick >> level * HG_TIMER_SLOT_BITS) + 1, used = timers->used[level];
        unsigned int first = (unsigned int) at % HG_TIMER_SLOTS;
        uint64_t ns;

        if (used == 0)
            continue;
        if (first > 0)
            used = used >> first | used << (HG_TIMER_SLOTS - first);
        at += (unsigned int) __builtin_ctzll(used);
        ns = at << (level * HG_TIMER_SLOT_BITS + HG_TIMER_TICK_BITS);
        if (ns < next_ns)
            next_ns = ns;
    }
    /* Polls and threads about to sleep read it without the lock; arming a timer wakes sleepers. */
    atomic_store(&timers->next_ns, next_ns);
}

/* Convert to ticks, rounded up so that no timer fires too early. */
static uint64_t hg_timers_tick_at(uint64_t at_ns)
{
    return (at_ns + (UINT64_C(1) << HG_TIMER_TICK_BITS) - 1) >> HG_TIMER_TICK_BITS;
}
