/* SPDX-License-Identifier: BSD-3-Clause */
/* Cancel, and refusing it for a while. */

#include "fault.h"

static int32_t cancel(struct na_plugin_context *na_context, struct fault_op *op, bool is_trusted);
static bool refuse(struct fault_context *context, struct fault_op *op);
static struct fault_op *take_due(struct fault_context *context);

int32_t fault_cancel(struct na_plugin_context *context, void *op)
{
    return cancel(context, op, false);
}

/* While our operation is valid, so is the wrapped plugin's, which is posted only by it. */
int32_t fault_cancel_trusted(struct na_plugin_context *context, void *op)
{
    return cancel(context, op, true);
}

void fault_cancel_due(struct fault_context *context)
{
    struct fault_op *op;

    while ((op = take_due(context)) != NULL) {
        fault_op_cancel(op, false);
        fault_op_unpin(op);
    }
}

static int32_t cancel(struct na_plugin_context *na_context, struct fault_op *op, bool is_trusted)
{
    struct fault_context *context = fault_context_get(na_context);
    struct fault_class *fault_class = context->fault_class;

    if (!fault_class->has_faults)
        return fault_call_cancel(context, op, is_trusted);
    if (fault_class->options.cancel_fails == 0 || !refuse(context, op))
        fault_op_cancel(op, is_trusted);
    return NA_PLUGIN_SUCCESS;
}

void fault_op_cancel(struct fault_op *op, bool is_trusted)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_context *context;
    enum fault_state state;

    if (fault_class->may_defer && fault_defer_remove(op)) {
        fault_op_complete(op, NA_PLUGIN_CANCELED);
        return;
    }
    (void) pthread_mutex_lock(&fault_class->state);
    state = op->state;
    if (state == FAULT_UNMATCHED) {
        kit_list_remove(&op->state_link);
        op->state = FAULT_IDLE;
    } else if (state == FAULT_INNER) {
        op->pins++;
    }
    op->cancel_wanted = true;
    context = op->context;
    (void) pthread_mutex_unlock(&fault_class->state);
    if (state == FAULT_UNMATCHED)
        fault_op_complete(op, NA_PLUGIN_CANCELED);
    if (state != FAULT_INNER)
        return;
    if (fault_context_enter(context)) {
        (void) fault_call_cancel(context, op, is_trusted);
        fault_context_leave(context);
    }
    fault_op_unpin(op);
}

/* True when the cancel is refused, or there is nothing to cancel. A refused cancel is done after
 * cancel_us, as by a transport that cannot cancel at once; calling it again does not help. */
static bool refuse(struct fault_context *context, struct fault_op *op)
{
    struct fault_class *fault_class = context->fault_class;
    bool refused = true;

    (void) pthread_mutex_lock(&fault_class->state);
    if (op->state != FAULT_IDLE && op->state != FAULT_UNMATCHED && !op->cancel_refused) {
        const uint64_t number = fault_context_number(context, FAULT_STREAM_CANCELS);

        refused = fault_happens(context, FAULT_STREAM_CANCELS, number, FAULT_DRAW_CANCEL,
                                fault_class->options.cancel_fails);
        if (refused) {
            op->cancel_refused = true;
            op->cancel_due_ns = kit_host->clock_ns() + fault_class->options.cancel_ns;
            kit_list_append(&context->cancels, &op->state_link);
            fault_timer_update(context);
            fault_count(fault_class, FAULT_CANCELS_REFUSED);
        }
    } else {
        refused = op->state != FAULT_UNMATCHED;
    }
    (void) pthread_mutex_unlock(&fault_class->state);
    return refused;
}

/* Returns an operation whose refused cancel is due, pinned, so that it is not reused meanwhile. */
static struct fault_op *take_due(struct fault_context *context)
{
    struct fault_class *fault_class = context->fault_class;
    struct fault_op *op = NULL;
    struct kit_link *link;

    (void) pthread_mutex_lock(&fault_class->state);
    link = kit_list_first(&context->cancels);
    if (link != NULL)
        op = kit_container(link, struct fault_op, state_link);
    if (op != NULL && op->cancel_due_ns <= kit_host->clock_ns()) {
        kit_list_remove(&op->state_link);
        op->cancel_refused = false;
        op->pins++;
    } else {
        op = NULL;
    }
    (void) pthread_mutex_unlock(&fault_class->state);
    return op;
}
