/* SPDX-License-Identifier: BSD-3-Clause */
/* The control messages by which origins tell a target that they abandoned an RPC. */
#ifndef TESTS_HG_WORDS_H
#define TESTS_HG_WORDS_H

#include "hg_fixture.h"

#include "hg/abandoned.h"
#include "hg/class.h"
#include "hg/context.h"
#include "hg/generation.h"
#include "hg/handle.h"

/* Count of ABANDON messages that the target has received. */
static inline uint32_t words_kept(const struct pair *pair)
{
    struct hg_controls *controls = &hg_rpc_context(pair->target.context)->controls;
    uint32_t count;

    (void) pthread_mutex_lock(&controls->lock);
    count = controls->abandoned != NULL ? controls->abandoned->next : 0;
    (void) pthread_mutex_unlock(&controls->lock);
    return count;
}

static inline void wait_for_words(const struct pair *pair, uint32_t count)
{
    uint64_t end = now_ms() + WAIT_MS;

    while (words_kept(pair) < count && now_ms() < end)
        pair_progress(pair);
    assert_int_equal(words_kept(pair), count);
}

#endif /* TESTS_HG_WORDS_H */
