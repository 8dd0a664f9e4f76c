/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A processor without a class, and its buffer, for the tests of this folder.
 */
#ifndef TESTS_PROC_FIXTURE_H
#define TESTS_PROC_FIXTURE_H

#include "proc/proc_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct fixture {
    struct hg_proc proc;
    char buf[4096];
    size_t used; /* bytes that were encoded */
};

static inline void fixture_init(struct fixture *fixture, enum hg_proc_encoding encoding,
                                hg_proc_hash_t hash)
{
    hg_proc_init(&fixture->proc, NULL, hash, encoding);
    memset(fixture->buf, 0x5a, sizeof(fixture->buf));
    fixture->used = 0;
}

/* Encode one value with the routine `proc_cb`. */
static inline void fixture_encode(struct fixture *fixture, hg_proc_cb_t proc_cb, void *data)
{
    assert_int_equal(hg_proc_reset(&fixture->proc, fixture->buf, sizeof(fixture->buf), HG_ENCODE),
                     HG_SUCCESS);
    assert_int_equal(proc_cb(&fixture->proc, data), HG_SUCCESS);
    assert_int_equal(hg_proc_flush(&fixture->proc), HG_SUCCESS);
    fixture->used = (size_t) hg_proc_get_size_used(&fixture->proc);
}

/* Decode from a copy of exactly `size` encoded bytes, so that a sanitizer sees a read past them. */
static inline hg_return_t fixture_decode(struct fixture *fixture, hg_proc_cb_t proc_cb, void *data,
                                         size_t size)
{
    char *copy = malloc(size > 0 ? size : 1);
    hg_return_t ret;

    assert_non_null(copy);
    memcpy(copy, fixture->buf, size);
    assert_int_equal(hg_proc_reset(&fixture->proc, copy, size, HG_DECODE), HG_SUCCESS);
    ret = proc_cb(&fixture->proc, data);
    assert_true(hg_proc_get_size_used(&fixture->proc) <= size);
    free(copy);
    return ret;
}

static inline void fixture_free(struct fixture *fixture, hg_proc_cb_t proc_cb, void *data)
{
    assert_int_equal(hg_proc_reset(&fixture->proc, NULL, 0, HG_FREE), HG_SUCCESS);
    assert_int_equal(proc_cb(&fixture->proc, data), HG_SUCCESS);
}

#endif /* TESTS_PROC_FIXTURE_H */
