/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A processor without a class for the tests of mercury_macros.h.
 */
#include "macros_support.h"

#include "proc/proc_internal.h"

hg_proc_t macros_proc(void *buf, size_t size, hg_proc_op_t op, enum hg_proc_encoding encoding)
{
    static struct hg_proc proc;

    hg_proc_fini(&proc);
    hg_proc_init(&proc, NULL, HG_NOHASH, encoding);
    return hg_proc_reset(&proc, buf, size, op) == HG_SUCCESS ? &proc : HG_PROC_NULL;
}
