/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint of the plugin, driven without the core. */
#ifndef UCX_SIDE_H
#define UCX_SIDE_H

#include "ucx_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

struct side {
    struct na_plugin_class *na_class;
    struct na_plugin_context *context;
};

static inline struct na_plugin_init side_init(const char *protocol)
{
    return (struct na_plugin_init){
        .size = sizeof(struct na_plugin_init),
        .listen = 1,
        .class_name = "ucx",
        .protocol = protocol,
        .address = "127.0.0.1",
        .max_contexts = 1,
    };
}

/* Opens a class and returns its capabilities. */
static inline uint64_t side_open_init(struct side *side, const struct na_plugin_init *init)
{
    struct na_plugin_class_info info = {.size = sizeof(info)};

    side->na_class = NULL;
    assert_int_equal(ucx_class_initialize(init, NULL, &side->na_class, &info), 0);
    assert_int_equal(kit_msg_context_create(side->na_class, NULL, 0, &side->context), 0);
    return info.capabilities;
}

static inline void side_open_as(struct side *side, const char *protocol)
{
    const struct na_plugin_init init = side_init(protocol);

    (void) side_open_init(side, &init);
}

static inline void side_open(struct side *side)
{
    side_open_as(side, "sm+tcp");
}

static inline void side_poll(struct side *side)
{
    uint32_t count = 0;

    assert_int_equal(kit_msg_poll(side->context, &count), 0);
}

static inline void side_close(struct side *side)
{
    assert_int_equal(kit_msg_context_stop(side->context), 0);
    assert_int_equal(kit_msg_context_destroy(side->context), 0);
    assert_int_equal(ucx_class_finalize(side->na_class), 0);
}

/* Opens all free descriptors of the process, at most `max`. Returns how many. */
static inline int descriptors_take_all(int *fds, int max)
{
    int count = 0;

    while (count < max && (fds[count] = dup(STDERR_FILENO)) >= 0)
        count++;
    return count;
}

#endif /* UCX_SIDE_H */
