/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tests of mercury_macros.h need and C++ cannot make by itself: a processor without a
 * class.
 */
#ifndef TESTS_PROC_MACROS_SUPPORT_H
#define TESTS_PROC_MACROS_SUPPORT_H

#include "mercury_proc_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A processor at the front of a buffer; the same one at each call. */
hg_proc_t macros_proc(void *buf, size_t size, hg_proc_op_t op, enum hg_proc_encoding encoding);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_PROC_MACROS_SUPPORT_H */
