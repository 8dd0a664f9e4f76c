/* SPDX-License-Identifier: BSD-3-Clause */
#include "hg/window.h"

#include <stdlib.h>
#include <string.h>

static uint64_t *window_words(struct hg_window *window);
static uint64_t window_size(const struct hg_window *window);
static void window_move(struct hg_window *window, uint64_t number);
static bool window_would_drop(struct hg_window *window, uint64_t number);
static bool window_grow(struct hg_window *window);

static inline bool bit_is_set(const uint64_t *words, uint64_t size, uint64_t number)
{
    return (words[number % size / 64] >> number % 64 & 1) != 0;
}

static inline void bit_set(uint64_t *words, uint64_t size, uint64_t number)
{
    words[number % size / 64] |= UINT64_C(1) << number % 64;
}

static inline void bit_clear(uint64_t *words, uint64_t size, uint64_t number)
{
    words[number % size / 64] &= ~(UINT64_C(1) << number % 64);
}

bool hg_window_take(struct hg_window *window, uint64_t number)
{
    if (number == 0)
        return false;
    if (number > window->last)
        window_move(window, number);
    else if (window->last - number >= window_size(window) ||
             bit_is_set(window_words(window), window_size(window), number))
        return false;
    bit_set(window_words(window), window_size(window), number);
    return true;
}

void hg_window_fini(struct hg_window *window)
{
    free(window->words);
    window->words = NULL;
}

static uint64_t *window_words(struct hg_window *window)
{
    return window->words != NULL ? window->words : window->least;
}

static uint64_t window_size(const struct hg_window *window)
{
    return UINT64_C(64) * (window->words != NULL ? window->word_count : HG_WINDOW_WORDS_MIN);
}

/* Move the window so that it ends at `number`, which is larger than the last one. */
static void window_move(struct hg_window *window, uint64_t number)
{
    uint64_t size;

    while (window_would_drop(window, number) && window_grow(window))
        ;
    size = window_size(window);
    if (number - window->last >= size)
        memset(window_words(window), 0, (size_t) size / 8);
    else
        for (uint64_t i = window->last + 1; i <= number; i++)
            bit_clear(window_words(window), size, i);
    window->last = number;
}

/* Returns true if the move to `number` would drop numbers that were not received. */
static bool window_would_drop(struct hg_window *window, uint64_t number)
{
    const uint64_t size = window_size(window);
    const uint64_t first = window->last >= size ? window->last - size + 1 : 1;
    const uint64_t end = number > size ? number - size : 0;

    if (end > window->last)
        return true;
    for (uint64_t i = first; i <= end; i++)
        if (!bit_is_set(window_words(window), size, i))
            return true;
    return false;
}

static bool window_grow(struct hg_window *window)
{
    const uint64_t old_size = window_size(window), size = 2 * old_size;
    uint64_t *words = size / 64 <= HG_WINDOW_WORDS_MAX ? calloc((size_t) size / 64, 8) : NULL;

    if (words == NULL)
        return false;
    for (uint64_t i = 0; i < old_size && i < window->last; i++)
        if (bit_is_set(window_words(window), old_size, window->last - i))
            bit_set(words, size, window->last - i);
    free(window->words);
    window->words = words;
    window->word_count = (uint32_t) (size / 64);
    return true;
}
