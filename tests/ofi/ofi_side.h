/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint of the plugin without the core above it. */
#ifndef OFI_SIDE_H
#define OFI_SIDE_H

#include "ofi.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct side {
    struct na_plugin_class *na_class;
    struct na_plugin_context *context;
};

static inline void side_open_as(struct side *side, const char *protocol, bool is_target,
                                uint32_t progress_mode)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .class_name = "ofi",
        .protocol = protocol,
        .address = "127.0.0.1",
        .listen = is_target,
        .max_contexts = 1,
        .progress_mode = progress_mode,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};

    assert_int_equal(ofi_class_initialize(&init, NULL, &side->na_class, &info), NA_PLUGIN_SUCCESS);
    assert_int_equal(kit_msg_context_create(side->na_class, NULL, 0, &side->context),
                     NA_PLUGIN_SUCCESS);
}

static inline void side_close(struct side *side)
{
    (void) kit_msg_context_stop(side->context);
    (void) kit_msg_context_destroy(side->context);
    (void) ofi_class_finalize(side->na_class);
}

#endif /* OFI_SIDE_H */
