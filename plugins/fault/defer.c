/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deferred operations. A path is a queue: the messages to one context of one peer in the order in
 * which they were sent, or a single operation that has no order. Its head is in a list by due time.
 */

#include "fault.h"

#include <sched.h>

#define RETRY_NS UINT64_C(50000) /* between tries when the wrapped plugin has no resources */

static struct fault_op *find_tail(const struct fault_op *op);
static bool is_same_path(const struct fault_op *head, const struct fault_op *op);
static void paths_insert(struct fault_op *head);
static void paths_passed(struct fault_paths *paths);
static void paths_changed(struct fault_class *fault_class, struct fault_paths *paths);
static struct fault_op *take_due(struct fault_context *context);
static void post_due(struct fault_op *op);
static bool post_ended(struct fault_op *op, int32_t ret);
static void path_remove(struct fault_op *op);
static struct fault_op *path_before(const struct fault_op *op);
static struct fault_op *find_of_context(const struct fault_context *context);

bool fault_defer(struct fault_op *op, bool deferred, uint64_t due_ns, uint32_t passes, bool ordered)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_op *tail;

    (void) pthread_mutex_lock(&fault_class->order);
    tail = ordered ? find_tail(op) : NULL;
    if (deferred || tail != NULL) {
        op->due_ns = due_ns;
        op->passes = passes;
        op->ordered = ordered;
        op->is_posting = false;
        op->path_next = NULL;
        op->is_head = tail == NULL;
        (void) pthread_mutex_lock(&fault_class->state);
        op->state = FAULT_DEFERRED;
        (void) pthread_mutex_unlock(&fault_class->state);
        if (tail != NULL)
            tail->path_next = op;
        else
            paths_insert(op);
        deferred = true;
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return deferred;
}

void fault_defer_passed(struct fault_class *fault_class)
{
    (void) pthread_mutex_lock(&fault_class->order);
    if (!fault_class->single_context)
        paths_passed(&fault_class->paths);
    for (struct kit_link *at = kit_list_first(&fault_class->contexts);
         at != NULL && fault_class->single_context; at = kit_list_next(&fault_class->contexts, at))
        paths_passed(kit_container(at, struct fault_context, link)->paths);
    (void) pthread_mutex_unlock(&fault_class->order);
}

void fault_defer_release(struct fault_context *context)
{
    struct fault_op *op;

    while ((op = take_due(context)) != NULL)
        post_due(op);
}

bool fault_defer_remove(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    bool removed;

    (void) pthread_mutex_lock(&fault_class->order);
    (void) pthread_mutex_lock(&fault_class->state);
    removed = op->state == FAULT_DEFERRED;
    if (removed) {
        op->state = FAULT_IDLE;
        op->cancel_wanted = true;
    }
    (void) pthread_mutex_unlock(&fault_class->state);
    if (removed)
        path_remove(op);
    (void) pthread_mutex_unlock(&fault_class->order);
    return removed;
}

void fault_defer_drain(struct fault_context *context, int32_t status)
{
    struct fault_class *fault_class = context->fault_class;
    struct fault_op *op;

    for (;;) {
        (void) pthread_mutex_lock(&fault_class->order);
        op = find_of_context(context);
        if (op != NULL) {
            path_remove(op);
            (void) pthread_mutex_lock(&fault_class->state);
            op->state = FAULT_IDLE;
            (void) pthread_mutex_unlock(&fault_class->state);
        }
        (void) pthread_mutex_unlock(&fault_class->order);
        if (op == NULL)
            break;
        fault_op_complete(op, status);
    }
    while (atomic_load(&context->posting_count) != 0)
        (void) sched_yield();
}

void fault_paths_init(struct fault_paths *paths)
{
    kit_list_init(&paths->heads);
    paths->due_ns = UINT64_MAX;
}

/* Returns the last operation of the message's path, or NULL. */
static struct fault_op *find_tail(const struct fault_op *op)
{
    const struct kit_link *heads = &op->context->paths->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link)) {
        struct fault_op *tail = kit_container(link, struct fault_op, path_link);

        if (!is_same_path(tail, op))
            continue;
        while (tail->path_next != NULL)
            tail = tail->path_next;
        return tail;
    }
    return NULL;
}

static bool is_same_path(const struct fault_op *head, const struct fault_op *op)
{
    const struct fault_class *fault_class = op->fault_class;

    return head->ordered && head->post.peer_id == op->post.peer_id &&
           (head->post.peer == op->post.peer ||
            fault_class->inner->addr_compare(fault_class->inner_class, head->post.peer,
                                             op->post.peer) != 0);
}

/* Inserts a head by its due time. */
static void paths_insert(struct fault_op *head)
{
    struct fault_paths *paths = head->context->paths;
    struct kit_link *place = paths->heads.prev;

    while (place != &paths->heads &&
           kit_container(place, struct fault_op, path_link)->due_ns > head->due_ns)
        place = place->prev;
    kit_list_insert_after(place, &head->path_link);
    paths_changed(head->fault_class, paths);
}

/* Counts a posted operation for each reordered one. */
static void paths_passed(struct fault_paths *paths)
{
    struct kit_link *next, *link = kit_list_first(&paths->heads);

    for (; link != NULL; link = next) {
        struct fault_op *op = kit_container(link, struct fault_op, path_link);

        next = kit_list_next(&paths->heads, link);
        if (op->passes == 0 || op->is_posting || --op->passes != 0)
            continue;
        op->due_ns = 0;
        kit_list_remove(link);
        paths_insert(op);
    }
}

static void paths_changed(struct fault_class *fault_class, struct fault_paths *paths)
{
    struct kit_link *link = kit_list_first(&paths->heads);

    while (link != NULL && kit_container(link, struct fault_op, path_link)->is_posting)
        link = kit_list_next(&paths->heads, link);
    (void) pthread_mutex_lock(&fault_class->state);
    paths->due_ns =
        link != NULL ? kit_container(link, struct fault_op, path_link)->due_ns : UINT64_MAX;
    for (struct kit_link *at = kit_list_first(&fault_class->contexts); at != NULL;
         at = kit_list_next(&fault_class->contexts, at)) {
        struct fault_context *context = kit_container(at, struct fault_context, link);

        if (context->paths == paths)
            fault_timer_update(context);
    }
    (void) pthread_mutex_unlock(&fault_class->state);
}

/* Returns a due head, pinned. It stays in its path, so that the operations behind it wait. */
static struct fault_op *take_due(struct fault_context *context)
{
    struct fault_class *fault_class = context->fault_class;
    const struct kit_link *heads = &context->paths->heads;
    const uint64_t now_ns = kit_host->clock_ns();
    struct fault_op *due = NULL;

    (void) pthread_mutex_lock(&fault_class->order);
    for (struct kit_link *link = kit_list_first(heads); link != NULL && due == NULL;
         link = kit_list_next(heads, link)) {
        struct fault_op *op = kit_container(link, struct fault_op, path_link);

        if (op->due_ns > now_ns)
            break;
        if (!op->is_posting)
            due = op;
    }
    if (due != NULL) {
        due->is_posting = true;
        atomic_fetch_add(&due->context->posting_count, 1);
        (void) pthread_mutex_lock(&fault_class->state);
        due->state = FAULT_INNER;
        due->pins++;
        (void) pthread_mutex_unlock(&fault_class->state);
        paths_changed(fault_class, context->paths);
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return due;
}

static void post_due(struct fault_op *op)
{
    struct fault_class *fault_class = op->fault_class;
    struct fault_context *context = op->context;
    int32_t ret = NA_PLUGIN_HOSTUNREACH;
    bool cancel;

    if (fault_context_enter(context)) {
        ret = fault_call(op);
        fault_context_leave(context);
    }
    cancel = post_ended(op, ret);
    if (ret == NA_PLUGIN_SUCCESS) {
        /* A cancel before the post did not reach the wrapped plugin. */
        if (cancel && fault_context_enter(context)) {
            (void) fault_class->inner->cancel(context->inner, op->inner);
            fault_context_leave(context);
        }
        if (fault_class->options.reorder != 0)
            fault_defer_passed(fault_class);
    } else if (ret != NA_PLUGIN_AGAIN || cancel) {
        fault_op_complete(op, cancel ? NA_PLUGIN_CANCELED : ret);
    }
    fault_op_unpin(op);
    atomic_fetch_sub(&context->posting_count, 1);
}

/* Takes it out of the path, or defers it again without resources. True if it was cancelled. */
static bool post_ended(struct fault_op *op, int32_t ret)
{
    struct fault_class *fault_class = op->fault_class;
    bool cancel, again;

    (void) pthread_mutex_lock(&fault_class->order);
    (void) pthread_mutex_lock(&fault_class->state);
    cancel = op->cancel_wanted;
    again = ret == NA_PLUGIN_AGAIN && !cancel && !op->context->stopped;
    if (again)
        op->state = FAULT_DEFERRED;
    else if (ret == NA_PLUGIN_AGAIN)
        cancel = true;
    (void) pthread_mutex_unlock(&fault_class->state);
    op->is_posting = false;
    if (again) {
        kit_list_remove(&op->path_link);
        op->due_ns = kit_host->clock_ns() + RETRY_NS;
        paths_insert(op);
    } else {
        path_remove(op);
    }
    (void) pthread_mutex_unlock(&fault_class->order);
    return cancel;
}

/* The operation behind a removed head becomes the head. */
static void path_remove(struct fault_op *op)
{
    struct fault_op *before, *next = op->path_next;

    if (!op->is_head) {
        before = path_before(op);
        if (before != NULL)
            before->path_next = next;
    } else {
        kit_list_remove(&op->path_link);
        op->is_head = false;
        if (next != NULL) {
            next->is_head = true;
            paths_insert(next);
        }
        paths_changed(op->fault_class, op->context->paths);
    }
    op->path_next = NULL;
}

static struct fault_op *path_before(const struct fault_op *op)
{
    const struct kit_link *heads = &op->context->paths->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link))
        for (struct fault_op *before = kit_container(link, struct fault_op, path_link);
             before != NULL; before = before->path_next)
            if (before->path_next == op)
                return before;
    return NULL;
}

/* Returns a deferred operation of the context, from anywhere in a path, or NULL. */
static struct fault_op *find_of_context(const struct fault_context *context)
{
    const struct kit_link *heads = &context->paths->heads;

    for (struct kit_link *link = kit_list_first(heads); link != NULL;
         link = kit_list_next(heads, link))
        for (struct fault_op *op = kit_container(link, struct fault_op, path_link); op != NULL;
             op = op->path_next)
            if (op->context == context && !op->is_posting)
                return op;
    return NULL;
}
