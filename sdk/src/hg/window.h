/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which numbers of a session were received: each counts once, in any order.
 *
 * Requests may be handled in another order than they were sent in, for a thread may be preempted
 * between taking a message and looking at its number. So what is not there yet is remembered for a
 * quarter of a million numbers; the window grows when one would fall out of it, which costs nothing
 * as long as all come nearly in order.
 */
#ifndef HG_WINDOW_H
#define HG_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define HG_WINDOW_WORDS_MIN 16u
#define HG_WINDOW_WORDS_MAX 4096u

struct hg_window {
    uint64_t last;       /* the largest number; the first one is 1 */
    uint64_t *words;     /* bits of those before it, by number; NULL: in `least` */
    uint32_t word_count; /* a power of 2; 0: HG_WINDOW_WORDS_MIN */
    uint64_t least[HG_WINDOW_WORDS_MIN];
};

/* Count a number; false if it was there before, or is too old to know. */
bool hg_window_take(struct hg_window *window, uint64_t number);

/* Free what it holds. */
void hg_window_fini(struct hg_window *window);

#endif /* HG_WINDOW_H */
