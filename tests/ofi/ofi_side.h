/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint of the plugin, driven without the core. */
#ifndef OFI_SIDE_H
#define OFI_SIDE_H

#include "ofi.h"

#include "kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct side {
    struct na_plugin_class *na_class;
    struct na_plugin_context *context;
};

/* The status of the operation that completed last; a test sets it to -1 before it starts one. */
static int32_t side_status = -1;

static inline void side_completed(void *op, int32_t status)
{
    (void) op;
    side_status = status;
}

/* Makes the host record the status of each completion in side_status. */
static inline void side_host_use(struct na_host *host)
{
    *host = plugin_host;
    host->op_complete = side_completed;
    kit_host = host;
}

/* Polls `from`, and also `polls` unless it is NULL, until an operation completes, for at most
 * wait_ns. */
static inline int32_t side_await(struct side *from, struct side *polls, uint64_t wait_ns)
{
    const uint64_t end = kit_host->clock_ns() + wait_ns;
    uint32_t count = 0;

    while (side_status < 0 && kit_host->clock_ns() < end) {
        (void) kit_msg_poll(from->context, &count);
        if (polls != NULL)
            (void) kit_msg_poll(polls->context, &count);
    }
    return side_status;
}

/* Opens at `address`, or if that is NULL at an address that the provider chooses. */
static inline void side_open_at(struct side *side, const char *protocol, const char *address,
                                bool is_target)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ofi",
        .protocol = protocol,
        .address = address,
        .listen = is_target,
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};

    assert_int_equal(ofi_class_initialize(&init, NULL, &side->na_class, &info), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_msg_context_create(side->na_class, NULL, 0, &side->context),
                     NA_PLUGIN_SUCCESS);
}

static inline void side_open_as(struct side *side, const char *protocol, bool is_target)
{
    side_open_at(side, protocol, "127.0.0.1", is_target);
}

static inline void side_close(struct side *side)
{
    (void) kit_msg_context_stop(side->context);
    (void) kit_msg_context_destroy(side->context);
    (void) ofi_class_finalize(side->na_class);
}

#endif /* OFI_SIDE_H */
