/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations: a completion of the wrapped plugin becomes one of ours, exactly once. */

#include "fault.h"

static void on_complete(void *arg, int32_t status);
static void on_complete_recv(void *arg, int32_t status, uint64_t size,
                             struct na_plugin_addr *source, uint32_t tag);
static int32_t on_complete_multi_recv(void *arg, int32_t status, void *buf, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag, uint32_t last);
static void op_report(struct fault_op *op, struct fault_report *report);
static bool op_finish(struct fault_op *op, struct fault_report *report);
static bool op_survives(struct fault_op *op, struct fault_report *report);
static bool is_for_anybody(const struct fault_op *op);
static void op_deliver(struct fault_op *op, const struct fault_report *report);

static const struct na_plugin_wrap_events events = {
    .complete = on_complete,
    .complete_recv = on_complete_recv,
    .complete_multi_recv = on_complete_multi_recv,
};

int32_t fault_op_initialize(struct na_plugin_class *na_class, void *op)
{
    struct fault_class *fault_class = fault_class_get(na_class);
    const struct na_plugin *inner = fault_class->inner;
    struct fault_op *fault_op = op;
    int32_t ret = NA_PLUGIN_SUCCESS;

    fault_op->fault_class = fault_class;
    fault_op->inner = fault_wrap->op_create(inner, &events, op);
    if (fault_op->inner == NULL)
        return NA_PLUGIN_NOMEM;
    if (inner->op_initialize != NULL)
        ret = inner->op_initialize(fault_class->inner_class, fault_op->inner);
    if (ret != NA_PLUGIN_SUCCESS)
        fault_wrap->op_destroy(fault_op->inner);
    return ret;
}

void fault_op_finalize(struct na_plugin_class *na_class, void *op)
{
    struct fault_class *fault_class = fault_class_get(na_class);
    struct fault_op *fault_op = op;

    if (fault_class->inner->op_finalize != NULL)
        fault_class->inner->op_finalize(fault_class->inner_class, fault_op->inner);
    fault_wrap->op_destroy(fault_op->inner);
}

void fault_op_complete(struct fault_op *op, int32_t status)
{
    op_report(op, &(struct fault_report){.status = status});
}

void fault_op_unpin(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_report report;
    bool deliver = false;

    (void) pthread_mutex_lock(&fault_class->state);
    if (--op->pins == 0 && op->is_reported) {
        report = op->report;
        deliver = op_finish(op, &report);
    }
    (void) pthread_mutex_unlock(&fault_class->state);
    if (deliver)
        op_deliver(op, &report);
}

int32_t fault_op_refuse(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;

    if (is_for_anybody(op)) {
        (void) pthread_mutex_lock(&fault_class->state);
        op->state = FAULT_UNMATCHED;
        kit_list_append(&op->context->unmatched, &op->state_link);
        (void) pthread_mutex_unlock(&fault_class->state);
    } else {
        fault_count(fault_class, FAULT_FAILED);
        fault_op_complete(op, NA_PLUGIN_HOSTUNREACH);
    }
    return NA_PLUGIN_SUCCESS;
}

static void on_complete(void *arg, int32_t status)
{
    fault_op_complete(arg, status);
}

static void on_complete_recv(void *arg, int32_t status, uint64_t size,
                             struct na_plugin_addr *source, uint32_t tag)
{
    op_report(
        arg, &(struct fault_report){
                 .status = status, .size = size, .source = source, .tag = tag, .is_receive = true});
}

/* Only the last completion ends the operation. */
static int32_t on_complete_multi_recv(void *arg, int32_t status, void *buf, uint64_t size,
                                      struct na_plugin_addr *source, uint32_t tag, uint32_t last)
{
    if (last == 0)
        return kit_host->op_complete_multi_recv(arg, status, buf, size, source, tag, 0);
    op_report(arg, &(struct fault_report){.status = status,
                                          .buf = buf,
                                          .size = size,
                                          .source = source,
                                          .tag = tag,
                                          .is_receive = true});
    return NA_PLUGIN_SUCCESS;
}

static void op_report(struct fault_op *op, struct fault_report *report)
{
    struct fault_class *fault_class = op->fault_class;
    bool deliver = true;

    if (fault_class->has_faults) {
        (void) pthread_mutex_lock(&fault_class->state);
        if (op->pins != 0) {
            op->report = *report;
            op->is_reported = true;
            deliver = false;
        } else {
            deliver = op_finish(op, report);
        }
        (void) pthread_mutex_unlock(&fault_class->state);
    }
    if (deliver)
        op_deliver(op, report);
}

/* The class's `state` is held. False when the operation does not complete after all. */
static bool op_finish(struct fault_op *op, struct fault_report *report)
{
    op->is_reported = false;
    if (op->cancel_refused) {
        kit_list_remove(&op->state_link);
        op->cancel_refused = false;
        op->cancel_wanted = true;
    }
    if (op_survives(op, report))
        return false;
    op->state = FAULT_IDLE;
    return true;
}

/* Handles an operation that was cancelled by the death. True: a receive, which waits on. */
static bool op_survives(struct fault_op *op, struct fault_report *report)
{
    const struct fault_context *context = op->context;

    if (!context->closing || context->stopped || op->cancel_wanted ||
        report->status != NA_PLUGIN_CANCELED)
        return false;
    if (is_for_anybody(op)) {
        op->state = FAULT_UNMATCHED;
        kit_list_append(&op->context->unmatched, &op->state_link);
        return true;
    }
    fault_count(op->fault_class, FAULT_FAILED);
    report->status = NA_PLUGIN_HOSTUNREACH;
    return false;
}

static bool is_for_anybody(const struct fault_op *op)
{
    return op->post.kind == FAULT_RECV_UNEXPECTED || op->post.kind == FAULT_RECV_MULTI;
}

static void op_deliver(struct fault_op *op, const struct fault_report *report)
{
    if (!report->is_receive)
        kit_host->op_complete(op, report->status);
    else if (op->post.kind != FAULT_RECV_MULTI)
        kit_host->op_complete_recv(op, report->status, report->size, report->source, report->tag);
    else if (report->status == NA_PLUGIN_SUCCESS || report->buf != NULL)
        (void) kit_host->op_complete_multi_recv(op, report->status,
                                                report->buf != NULL ? report->buf : op->post.buf,
                                                report->size, report->source, report->tag, 1);
    else
        kit_host->op_complete(op, report->status);
}
