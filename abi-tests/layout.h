/* SPDX-License-Identifier: BSD-3-Clause */
/* What the statements of layout_*.c mean. They describe 64-bit machines, and hold for every
 * later version of major 1: one that no longer does is a broken promise. What came after 1.0 is
 * stated for headers of LAYOUT_MINOR, the minor of the release, and later ones. */

#ifndef ABI_TESTS_LAYOUT_H
#define ABI_TESTS_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

static_assert(UINTPTR_MAX == UINT64_MAX, "the layouts here are those of 64-bit machines");

/* A struct that never changes its size. */
#define SIZE(name, bytes) static_assert(sizeof(struct name) == (bytes), "size of struct " #name)

/* One whose size or version travels beside it: later minors append to it. */
#define GROWS(name, bytes) static_assert(sizeof(struct name) >= (bytes), "size of struct " #name)

/* Where a member is. */
#define AT(name, member, bytes) \
    static_assert(offsetof(struct name, member) == (bytes), "offset of " #name "." #member)

/* What an enumerator or a constant is. */
#define VALUE(name, value) static_assert((name) == (value), "value of " #name)

#endif /* ABI_TESTS_LAYOUT_H */
