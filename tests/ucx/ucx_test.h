/* SPDX-License-Identifier: BSD-3-Clause */
/* Setup and teardown of each group of tests of the ucx plugin's internals. */

#ifndef UCX_TEST_H
#define UCX_TEST_H

#include "ucx.h"

#include "kit/plugin_host.h"

static inline int ucx_test_setup(void **state)
{
    (void) state;
    kit_host = &plugin_host;
    return 0;
}

static inline int ucx_test_teardown(void **state)
{
    (void) state;
    ucx_resources_cleanup();
    return 0;
}

#endif /* UCX_TEST_H */
