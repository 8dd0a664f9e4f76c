/* SPDX-License-Identifier: BSD-3-Clause */
/* A host table for tests of a plugin's modules: memory, the clock, and a log whose lines are
 * kept. */

#ifndef PLUGIN_HOST_H
#define PLUGIN_HOST_H

#include "na_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static char plugin_host_log[8192];

static void plugin_host_complete(void *op, int32_t status)
{
    (void) op;
    (void) status;
}

static void plugin_host_complete_recv(void *op, int32_t status, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag)
{
    (void) op;
    (void) status;
    (void) size;
    (void) source;
    (void) tag;
}

static int32_t plugin_host_complete_multi(void *op, int32_t status, void *buf, uint64_t size,
                                          struct na_plugin_addr *source, uint32_t tag,
                                          uint32_t last)
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

static void *plugin_host_alloc(uint64_t size, uint64_t align)
{
    void *memory = NULL;

    if (posix_memalign(&memory, align < sizeof(void *) ? sizeof(void *) : align, size) != 0)
        return NULL;
    memset(memory, 0, size);
    return memory;
}

static void plugin_host_free(void *memory)
{
    free(memory);
}

static uint32_t plugin_host_log_enabled(uint32_t level)
{
    return level <= NA_PLUGIN_LOG_WARNING;
}

static void plugin_host_log_write(uint32_t level, const char *plugin, const char *function,
                                  uint32_t line, const char *message)
{
    size_t used = strlen(plugin_host_log);

    (void) level;
    (void) plugin;
    (void) function;
    (void) line;
    (void) snprintf(plugin_host_log + used, sizeof(plugin_host_log) - used, "%s\n", message);
}

static uint64_t plugin_host_clock(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

static const struct na_host plugin_host = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_host),
    .op_complete = plugin_host_complete,
    .op_complete_recv = plugin_host_complete_recv,
    .op_complete_multi_recv = plugin_host_complete_multi,
    .mem_alloc = plugin_host_alloc,
    .mem_free = plugin_host_free,
    .log_enabled = plugin_host_log_enabled,
    .log = plugin_host_log_write,
    .clock_ns = plugin_host_clock,
};

#endif /* PLUGIN_HOST_H */
