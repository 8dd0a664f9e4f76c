/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations that wait. A lane is a queue: the messages to one context of one peer in the order in
 * which they were sent, or a single operation that has no order. Its head is in a list by time.
 */

#include "fault.h"

#include <sched.h>

#define RETRY_NS UINT64_C(50000) /* when the wrapped plugin has no resources */

static struct fault_op *find_tail(const struct fault_op *op);
static bool is_same_lane(const struct fault_op *head, const struct fault_op *op);
static void lanes_insert(struct fault_op *head);
static void lanes_passed(struct fault_lanes *lanes);
static void lanes_changed(struct fault_class *fault_class, struct fault_lanes *lanes);
static struct fault_op *take_due(struct fault_context *context);
static void hand_over(struct fault_op *op);
static bool hand_over_ended(struct fault_op *op, int32_t ret);
static void lane_remove(struct fault_op *op);
static struct fault_op *lane_before(const struct fault_op *op);
static struct fault_op *find_of_context(const struct fault_context *context);

bool fault_hold(struct fault_op *op, bool held, uint64_t due_ns, uint32_t passes, bool ordered)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_op *tail;

    (void) pthread_mutex_lock(&fault_class->order);
    tail = ordered ? find_tail(op) : NULL;
    if (held || tail != NULL) {
        op->due_ns = due_ns;
        op->passes = passes;
        op->ordered = ordered;
        op->handed_over = false;
        op->lane_next = NULL;
        op->is_head = tail == NULL;
        (void) pthread_mutex_lock(&fault_class->state);
        op->state = FAULT_HELD;
        (void) pthread_mutex_unlock(&fault_class->state);
        if (tail != NULL)
            tail->lane_next = op;
        else
            lanes_insert(op);
        held = true;
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return held;
}

void fault_hold_passed(struct fault_class *fault_class)
{
    (void) pthread_mutex_lock(&fault_class->order);
    if (!fault_class->single_context)
        lanes_passed(&fault_class->lanes);
    for (struct kit_link *at = kit_list_first(&fault_class->contexts);
         at != NULL && fault_class->single_context; at = kit_list_next(&fault_class->contexts, at))
        lanes_passed(kit_container(at, struct fault_context, link)->lanes);
    (void) pthread_mutex_unlock(&fault_class->order);
}

void fault_hold_release(struct fault_context *context)
{
    struct fault_op *op;

    while ((op = take_due(context)) != NULL)
        hand_over(op);
}

bool fault_hold_remove(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    bool removed;

    (void) pthread_mutex_lock(&fault_class->order);
    (void) pthread_mutex_lock(&fault_class->state);
    removed = op->state == FAULT_HELD;
    if (removed) {
        op->state = FAULT_IDLE;
        op->cancel_wanted = true;
    }
    (void) pthread_mutex_unlock(&fault_class->state);
    if (removed)
        lane_remove(op);
    (void) pthread_mutex_unlock(&fault_class->order);
    return removed;
}

void fault_hold_drain(struct fault_context *context, int32_t status)
{
    struct fault_class *fault_class = context->fault_class;
    struct fault_op *op;

    for (;;) {
        (void) pthread_mutex_lock(&fault_class->order);
        op = find_of_context(context);
        if (op != NULL) {
            lane_remove(op);
            (void) pthread_mutex_lock(&fault_class->state);
            op->state = FAULT_IDLE;
            (void) pthread_mutex_unlock(&fault_class->state);
        }
        (void) pthread_mutex_unlock(&fault_class->order);
        if (op == NULL)
            break;
        fault_op_complete(op, status);
    }
    while (atomic_load(&context->handing_over) != 0)
        (void) sched_yield();
}

void fault_lanes_init(struct fault_lanes *lanes)
{
    kit_list_init(&lanes->heads);
    lanes->due_ns = UINT64_MAX;
}

/* The last one of the lane that the message belongs to, or NULL. */
static struct fault_op *find_tail(const struct fault_op *op)
{
    const struct kit_link *heads = &op->context->lanes->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link)) {
        struct fault_op *tail = kit_container(link, struct fault_op, lane_link);

        if (!is_same_lane(tail, op))
            continue;
        while (tail->lane_next != NULL)
            tail = tail->lane_next;
        return tail;
    }
    return NULL;
}

static bool is_same_lane(const struct fault_op *head, const struct fault_op *op)
{
    const struct fault_class *fault_class = op->fault_class;

    return head->ordered && head->post.peer_id == op->post.peer_id &&
           (head->post.peer == op->post.peer ||
            fault_class->inner->addr_compare(fault_class->inner_class, head->post.peer,
                                             op->post.peer) != 0);
}

/* A head, by the time at which it is due. */
static void lanes_insert(struct fault_op *head)
{
    struct fault_lanes *lanes = head->context->lanes;
    struct kit_link *place = lanes->heads.prev;

    while (place != &lanes->heads &&
           kit_container(place, struct fault_op, lane_link)->due_ns > head->due_ns)
        place = place->prev;
    kit_list_insert_after(place, &head->lane_link);
    lanes_changed(head->fault_class, lanes);
}

/* One operation was handed over. */
static void lanes_passed(struct fault_lanes *lanes)
{
    struct kit_link *next, *link = kit_list_first(&lanes->heads);

    for (; link != NULL; link = next) {
        struct fault_op *op = kit_container(link, struct fault_op, lane_link);

        next = kit_list_next(&lanes->heads, link);
        if (op->passes == 0 || op->handed_over || --op->passes != 0)
            continue;
        op->due_ns = 0;
        kit_list_remove(link);
        lanes_insert(op);
    }
}

static void lanes_changed(struct fault_class *fault_class, struct fault_lanes *lanes)
{
    struct kit_link *link = kit_list_first(&lanes->heads);

    while (link != NULL && kit_container(link, struct fault_op, lane_link)->handed_over)
        link = kit_list_next(&lanes->heads, link);
    (void) pthread_mutex_lock(&fault_class->state);
    lanes->due_ns =
        link != NULL ? kit_container(link, struct fault_op, lane_link)->due_ns : UINT64_MAX;
    for (struct kit_link *at = kit_list_first(&fault_class->contexts); at != NULL;
         at = kit_list_next(&fault_class->contexts, at)) {
        struct fault_context *context = kit_container(at, struct fault_context, link);

        if (context->lanes == lanes)
            fault_timer_update(context);
    }
    (void) pthread_mutex_unlock(&fault_class->state);
}

/* A head that is due. It stays where it is, so that what comes after it waits, and it is pinned. */
static struct fault_op *take_due(struct fault_context *context)
{
    struct fault_class *fault_class = context->fault_class;
    const struct kit_link *heads = &context->lanes->heads;
    const uint64_t now_ns = kit_host->clock_ns();
    struct fault_op *due = NULL;

    (void) pthread_mutex_lock(&fault_class->order);
    for (struct kit_link *link = kit_list_first(heads); link != NULL && due == NULL;
         link = kit_list_next(heads, link)) {
        struct fault_op *op = kit_container(link, struct fault_op, lane_link);

        if (op->due_ns > now_ns)
            break;
        if (!op->handed_over)
            due = op;
    }
    if (due != NULL) {
        due->handed_over = true;
        atomic_fetch_add(&due->context->handing_over, 1);
        (void) pthread_mutex_lock(&fault_class->state);
        due->state = FAULT_INNER;
        due->pins++;
        (void) pthread_mutex_unlock(&fault_class->state);
        lanes_changed(fault_class, context->lanes);
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return due;
}

static void hand_over(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_context *context = op->context;
    int32_t ret = NA_PLUGIN_HOSTUNREACH;
    bool cancel;

    if (fault_context_enter(context)) {
        ret = fault_call(op);
        fault_context_leave(context);
    }
    cancel = hand_over_ended(op, ret);
    if (ret == NA_PLUGIN_SUCCESS) {
        /* Whoever cancelled it may have been too early for the wrapped plugin. */
        if (cancel && fault_context_enter(context)) {
            (void) fault_class->inner->cancel(context->inner, op->inner);
            fault_context_leave(context);
        }
        if (fault_class->options.reorder != 0)
            fault_hold_passed(fault_class);
    } else if (ret != NA_PLUGIN_AGAIN || cancel) {
        fault_op_complete(op, cancel ? NA_PLUGIN_CANCELED : ret);
    }
    fault_op_unpin(op);
    atomic_fetch_sub(&context->handing_over, 1);
}

/* Out of the lane, or back into it when there was no room. True when it was cancelled meanwhile. */
static bool hand_over_ended(struct fault_op *op, int32_t ret)
{
    struct fault_class *fault_class = op->fault_class;
    bool cancel, again;

    (void) pthread_mutex_lock(&fault_class->order);
    (void) pthread_mutex_lock(&fault_class->state);
    cancel = op->cancel_wanted;
    again = ret == NA_PLUGIN_AGAIN && !cancel && !op->context->stopped;
    if (again)
        op->state = FAULT_HELD;
    else if (ret == NA_PLUGIN_AGAIN)
        cancel = true;
    (void) pthread_mutex_unlock(&fault_class->state);
    op->handed_over = false;
    if (again) {
        kit_list_remove(&op->lane_link);
        op->due_ns = kit_host->clock_ns() + RETRY_NS;
        lanes_insert(op);
    } else {
        lane_remove(op);
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return cancel;
}

/* What waits behind a head that goes takes its place. */
static void lane_remove(struct fault_op *op)
{
    struct fault_op *before, *next = op->lane_next;

    if (!op->is_head) {
        before = lane_before(op);
        if (before != NULL)
            before->lane_next = next;
    } else {
        kit_list_remove(&op->lane_link);
        op->is_head = false;
        if (next != NULL) {
            next->is_head = true;
            lanes_insert(next);
        }
        lanes_changed(op->fault_class, op->context->lanes);
    }
    op->lane_next = NULL;
}

static struct fault_op *lane_before(const struct fault_op *op)
{
    const struct kit_link *heads = &op->context->lanes->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link))
        for (struct fault_op *before = kit_container(link, struct fault_op, lane_link);
             before != NULL; before = before->lane_next)
            if (before->lane_next == op)
                return before;
    return NULL;
}

/* Any operation of the context that waits, wherever in a lane it is. */
static struct fault_op *find_of_context(const struct fault_context *context)
{
    const struct kit_link *heads = &context->lanes->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link))
        for (struct fault_op *op = kit_container(link, struct fault_op, lane_link); op != NULL;
             op = op->lane_next)
            if (op->context == context && !op->handed_over)
                return op;
    return NULL;
}
