/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations of a wrapped plugin. To that plugin they look like those of the core, so that it need
 * not know that it is wrapped. */

#include "na/wrap.h"

#include <stdlib.h>
#include <string.h>

/* An operation of a wrapped plugin, whose part follows `op` as in any operation. */
struct wrapped_op {
    const struct na_plugin_wrap_events *events; /* of the wrapping plugin, called with `arg` */
    void *arg;
    _Alignas(NA_OP_ALIGN_MAX) struct na_op_id op; /* what na_op_from_private() returns */
};

#define WRAPPED_OP_SIZE (offsetof(struct wrapped_op, op) + NA_OP_SIZE)

static const struct wrapped_op *wrapped_op_get(const struct na_op_id *op);

bool na_wrap_report(struct na_op_id *op, int32_t status)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        wrapped->events->complete(wrapped->arg, status);
    return wrapped != NULL;
}

bool na_wrap_report_recv(struct na_op_id *op, int32_t status, uint64_t size,
                         struct na_plugin_addr *source, uint32_t tag)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        wrapped->events->complete_recv(wrapped->arg, status, size, source, tag);
    return wrapped != NULL;
}

bool na_wrap_report_multi_recv(struct na_op_id *op, int32_t status, void *buf, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag, uint32_t last,
                               int32_t *ret_p)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        *ret_p = wrapped->events->complete_multi_recv(wrapped->arg, status, buf, size, source, tag,
                                                      last);
    return wrapped != NULL;
}

void *na_wrap_op_create(const struct na_plugin *plugin, const struct na_plugin_wrap_events *events,
                        void *arg)
{
    const size_t size = WRAPPED_OP_SIZE + plugin->op_size;
    struct wrapped_op *wrapped;
    void *block = NULL;

    if (posix_memalign(&block, NA_OP_ALIGN_MAX, size) != 0)
        return NULL;
    memset(block, 0, size);
    wrapped = block;
    wrapped->events = events;
    wrapped->arg = arg;
    atomic_init(&wrapped->op.state, OP_WRAPPED);
    return na_op_private(&wrapped->op);
}

void na_wrap_op_destroy(void *op_private)
{
    if (op_private != NULL)
        free((void *) (uintptr_t) wrapped_op_get(na_op_from_private(op_private)));
}

/* Returns NULL for an operation of the core. */
static const struct wrapped_op *wrapped_op_get(const struct na_op_id *op)
{
    if ((atomic_load_explicit(&op->state, memory_order_relaxed) & OP_STATES) != OP_WRAPPED)
        return NULL;
    return (const struct wrapped_op *) (const void *) ((const char *) op -
                                                       offsetof(struct wrapped_op, op));
}
