/* SPDX-License-Identifier: BSD-3-Clause */
/* The loops in which programs make progress and run callbacks. Each is written as in a program,
 * so that their costs can be compared. */

#include "hg_perf/perf_loop.h"

#include <errno.h>
#include <poll.h>

#include "common/tool_endpoint.h"

static int request_progress(unsigned int timeout, void *arg);
static int request_trigger(unsigned int timeout, unsigned int *flag, void *arg);
static hg_return_t trigger_one_round(hg_context_t *context, unsigned int timeout_ms);
static hg_return_t event_round(hg_context_t *context, unsigned int timeout_ms);
static hg_return_t request_round(struct perf_loop *loop, unsigned int timeout_ms);

bool perf_loop_open(struct perf_loop *loop, enum perf_loop_kind kind, hg_context_t *context)
{
    *loop = (struct perf_loop){.kind = kind, .context = context};
    if (kind != PERF_LOOP_REQUEST)
        return true;
    loop->request_class = hg_request_init(request_progress, request_trigger, context);
    if (loop->request_class != NULL)
        loop->request = hg_request_create(loop->request_class);
    return loop->request != NULL;
}

hg_return_t perf_loop_round(struct perf_loop *loop, unsigned int timeout_ms)
{
    switch (loop->kind) {
    case PERF_LOOP_TRIGGER_ONE:
        return trigger_one_round(loop->context, timeout_ms);
    case PERF_LOOP_EVENT:
        return event_round(loop->context, timeout_ms);
    case PERF_LOOP_REQUEST:
        return request_round(loop, timeout_ms);
    default:
        return tool_endpoint_progress(loop->context, timeout_ms);
    }
}

void perf_loop_completed(struct perf_loop *loop)
{
    if (loop->request != NULL)
        hg_request_complete(loop->request);
}

void perf_loop_close(struct perf_loop *loop)
{
    if (loop->request != NULL)
        hg_request_destroy(loop->request);
    hg_request_finalize(loop->request_class, NULL);
    loop->request = NULL;
    loop->request_class = NULL;
}

static int request_progress(unsigned int timeout, void *arg)
{
    return tool_endpoint_result(HG_Progress(arg, timeout)) == HG_SUCCESS ? HG_UTIL_SUCCESS
                                                                         : HG_UTIL_FAIL;
}

static int request_trigger(unsigned int timeout, unsigned int *flag, void *arg)
{
    hg_return_t ret = HG_Trigger(arg, timeout, 1, flag);

    return tool_endpoint_result(ret) == HG_SUCCESS ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

static hg_return_t trigger_one_round(hg_context_t *context, unsigned int timeout_ms)
{
    hg_return_t ret = tool_endpoint_result(HG_Progress(context, timeout_ms));

    return ret == HG_SUCCESS ? tool_endpoint_result(HG_Trigger(context, 0, 1, NULL)) : ret;
}

static hg_return_t event_round(hg_context_t *context, unsigned int timeout_ms)
{
    unsigned int count = 0;
    hg_return_t ret;

    if (timeout_ms > 0 && !HG_Event_ready(context)) {
        struct pollfd event = {.fd = HG_Event_get_wait_fd(context), .events = POLLIN};

        if (poll(&event, 1, (int) timeout_ms) < 0 && errno != EINTR)
            return HG_FAULT;
    }
    ret = tool_endpoint_result(HG_Event_progress(context, &count));
    if (ret == HG_SUCCESS && count > 0)
        ret = tool_endpoint_result(HG_Event_trigger(context, count, NULL));
    return ret;
}

/* Waits until one operation has completed. A thread without operations serves others' requests. */
static hg_return_t request_round(struct perf_loop *loop, unsigned int timeout_ms)
{
    hg_request_reset(loop->request);
    return hg_request_wait(loop->request, timeout_ms, NULL) == HG_UTIL_SUCCESS ? HG_SUCCESS
                                                                               : HG_FAULT;
}
