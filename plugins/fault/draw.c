/* SPDX-License-Identifier: BSD-3-Clause */
/* Repeatable random numbers: a hash without state, so that threads do not affect each other. */

#include "fault.h"

static uint64_t mix(uint64_t value);

uint64_t fault_draw(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                    enum fault_draw draw)
{
    const uint64_t what = (uint64_t) context->id << 32 | (uint64_t) stream << 16 | (uint64_t) draw;

    return mix(mix(mix(context->fault_class->options.seed) ^ what) ^ number);
}

bool fault_happens(const struct fault_context *context, enum fault_stream stream, uint64_t number,
                   enum fault_draw draw, uint64_t probability)
{
    return probability != 0 && fault_draw(context, stream, number, draw) >> 11 < probability;
}

/* The finalizer of SplitMix64. */
static uint64_t mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}
