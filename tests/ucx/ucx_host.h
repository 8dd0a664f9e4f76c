/* SPDX-License-Identifier: BSD-3-Clause */
/* A host for tests of the plugin's rooms: memory, the clock, and a log that is kept to be read. */

#ifndef UCX_TEST_HOST_H
#define UCX_TEST_HOST_H

#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char ucx_test_log[8192];

static void ucx_test_complete(void *op, int32_t status)
{
    (void) op;
    (void) status;
}

static void ucx_test_complete_recv(void *op, int32_t status, uint64_t size,
                                   struct na_plugin_addr *source, uint32_t tag)
{
    (void) op;
    (void) status;
    (void) size;
    (void) source;
    (void) tag;
}

static int32_t ucx_test_complete_multi(void *op, int32_t status, void *buf, uint64_t size,
                                       struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    (void) op;
    (void) status;
    (void) buf;
    (void) size;
    (void) source;
    (void) tag;
    (void) last;
    return NA_PLUGIN_SUCCESS;
}

static void *ucx_test_alloc(uint64_t size, uint64_t align)
{
    void *memory = NULL;

    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) != 0)
        return NULL;
    memset(memory, 0, size);
    return memory;
}

static void ucx_test_free(void *memory)
{
    free(memory);
}

static uint32_t ucx_test_log_enabled(uint32_t level)
{
    return level <= NA_PLUGIN_LOG_WARNING;
}

static void ucx_test_log_write(uint32_t level, const char *plugin, const char *function,
                               uint32_t line, const char *message)
{
    size_t used = strlen(ucx_test_log);

    (void) level;
    (void) plugin;
    (void) function;
    (void) line;
    (void) snprintf(ucx_test_log + used, sizeof(ucx_test_log) - used, "%s\n", message);
}

static uint64_t ucx_test_clock(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

static const struct na_host ucx_test_host = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_host),
    .op_complete = ucx_test_complete,
    .op_complete_recv = ucx_test_complete_recv,
    .op_complete_multi_recv = ucx_test_complete_multi,
    .mem_alloc = ucx_test_alloc,
    .mem_free = ucx_test_free,
    .log_enabled = ucx_test_log_enabled,
    .log = ucx_test_log_write,
    .clock_ns = ucx_test_clock,
};

#endif /* UCX_TEST_HOST_H */
