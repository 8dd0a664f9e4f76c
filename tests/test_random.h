/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_RANDOM_H
#define TEST_RANDOM_H

#include <stdint.h>

/* Returns the next number of SplitMix64. Its state may begin with any number, the seed; the same
 * seed gives the same numbers, so a test run can be repeated. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t word = *state += UINT64_C(0x9e3779b97f4a7c15);

    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

#endif /* TEST_RANDOM_H */
