/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A processor without a class, for the tests of mercury_macros.h; C++ cannot create one itself.
 */
#ifndef TESTS_PROC_MACROS_SUPPORT_H
#define TESTS_PROC_MACROS_SUPPORT_H

#include "mercury_proc_ext.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reset the processor to the front of the buffer; each call returns the same processor. */
hg_proc_t macros_proc(void *buf, size_t size, hg_proc_op_t op, enum hg_proc_encoding encoding);

#ifdef __cplusplus
}
#endif

#endif /* TESTS_PROC_MACROS_SUPPORT_H */
