/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The replay window of a session: which sequence numbers were received. Each number is accepted
 * once, in any order.
 *
 * Requests may be checked in another order than they were sent, because a thread may be preempted
 * between the receive and the check. So the window grows, up to 2^18 numbers, as long as it would
 * otherwise move past a number that is missing. It stays small if messages come nearly in order.
 */
#ifndef HG_WINDOW_H
#define HG_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define HG_WINDOW_WORDS_MIN 16u
#define HG_WINDOW_WORDS_MAX 4096u

struct hg_window {
    uint64_t last;       /* the largest number received; numbers start at 1 */
    uint64_t *words;     /* bit map of the last numbers, modulo its size; NULL: it is in `least` */
    uint32_t word_count; /* a power of 2; 0: HG_WINDOW_WORDS_MIN */
    uint64_t least[HG_WINDOW_WORDS_MIN];
};

/* Accept a number; false if it was received before, or is older than the window. */
bool hg_window_take(struct hg_window *window, uint64_t number);

void hg_window_fini(struct hg_window *window);

#endif /* HG_WINDOW_H */
