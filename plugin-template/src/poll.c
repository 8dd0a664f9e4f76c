/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 6: progress and sleep. A poll does what can be done and returns. The core sleeps on a
 * descriptor that has to become readable whenever a poll would find something: the socket when a
 * datagram comes, the event when another thread queued something, the timer for what nobody tells
 * us of: room at a receiver, and the death of a peer.
 */

#include "template.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define RETRY_MS 1u   /* until a receiver is tried again that had no room */
#define LOOK_MS  100u /* between looks after peers that owe us something */

static void peers_look_after(struct na_plugin_context *context);
static bool list_look_after(struct na_plugin_context *context, struct template_link *list);
static void timer_set(struct na_plugin_context *context, uint32_t ms);
static bool waits_for_room(const struct na_plugin_context *context);

int32_t template_poll(struct na_plugin_context *context, uint32_t *count)
{
    uint64_t value;

    (void) pthread_mutex_lock(&context->na_class->lock);
    if (context->notified && read(context->event, &value, sizeof(value)) > 0)
        context->notified = false;
    timer_set(context, 0);
    if (!context->stopped) {
        const bool all_read = template_progress_receives(context);

        template_progress_sends(context);
        template_progress_transfers(context);
        /* What a dead peer has sent before comes first. */
        if (all_read)
            peers_look_after(context);
    }
    *count += context->completed;
    context->completed = 0;
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return NA_PLUGIN_SUCCESS; /* a peer's failure is never ours */
}

int32_t template_poll_get_fd(struct na_plugin_context *context)
{
    return context->na_class->busy ? -1 : context->epoll;
}

/* Always safe: what is there already keeps the descriptor readable. The timer is armed only here,
 * so that who never sleeps does not pay for it. */
uint32_t template_poll_try_wait(struct na_plugin_context *context)
{
    (void) pthread_mutex_lock(&context->na_class->lock);
    if (waits_for_room(context))
        timer_set(context, RETRY_MS);
    else if (!template_list_is_empty(&context->expected) ||
             !template_list_is_empty(&context->transfers))
        timer_set(context, LOOK_MS);
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return 1;
}

int32_t template_sleep_open(struct na_plugin_context *context)
{
    const int fds[3] = {
        context->socket,
        context->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
        context->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC),
    };
    struct epoll_event readable = {.events = EPOLLIN};

    context->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < 3; i++) {
        if (fds[i] < 0 || context->epoll < 0 ||
            epoll_ctl(context->epoll, EPOLL_CTL_ADD, fds[i], &readable) != 0) {
            TEMPLATE_ERROR("nothing to sleep on: %s", strerror(errno));
            return NA_PLUGIN_NOMEM;
        }
    }
    return NA_PLUGIN_SUCCESS;
}

void template_sleep_close(struct na_plugin_context *context)
{
    const int fds[3] = {context->epoll, context->timer, context->event};

    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            (void) close(fds[i]);
}

/* Wakes who sleeps, to look at what this thread has queued. With the lock. */
void template_notify(struct na_plugin_context *context)
{
    const uint64_t one = 1;

    if (!context->notified && write(context->event, &one, sizeof(one)) > 0)
        context->notified = true;
}

/* While we do not read, the socket must not keep the descriptor readable. */
void template_hear(struct na_plugin_context *context, bool hear)
{
    struct epoll_event event = {.events = hear ? EPOLLIN : 0};

    if (context->deaf == !hear)
        return;
    context->deaf = !hear;
    (void) epoll_ctl(context->epoll, EPOLL_CTL_MOD, context->socket, &event);
}

/* Nobody tells us that a process is gone: who waits for one looks now and then. */
static void peers_look_after(struct na_plugin_context *context)
{
    const uint64_t now = template_host->clock_ns();

    if (now - context->looked < LOOK_MS * UINT64_C(1000000))
        return;
    context->looked = now;
    while (list_look_after(context, &context->expected) ||
           list_look_after(context, &context->transfers))
        ;
}

/* True when one was dead, and the list is another one now. */
static bool list_look_after(struct na_plugin_context *context, struct template_link *list)
{
    const struct na_plugin_addr *alive = NULL;
    uint32_t alive_id = 0;

    for (struct template_link *link = list->next; link != list; link = link->next) {
        const struct template_op *op = (struct template_op *) (void *) link;

        if (op->peer == alive && op->peer_id == alive_id)
            continue;
        if (!template_peer_lives(context->na_class, op->peer, op->peer_id)) {
            template_complete_all(context, NA_PLUGIN_HOSTUNREACH, op->peer, op->peer_id);
            return true;
        }
        alive = op->peer;
        alive_id = op->peer_id;
    }
    return false;
}

static void timer_set(struct na_plugin_context *context, uint32_t ms)
{
    const struct itimerspec once = {
        .it_value = {.tv_sec = ms / 1000, .tv_nsec = (long) (ms % 1000) * 1000000}};

    if (context->armed == ms)
        return;
    context->armed = ms;
    (void) timerfd_settime(context->timer, 0, &once, NULL);
}

static bool waits_for_room(const struct na_plugin_context *context)
{
    if (!template_list_is_empty(&context->sends) || !template_list_is_empty(&context->serves))
        return true;
    for (const struct template_link *link = context->transfers.next; link != &context->transfers;
         link = link->next) {
        const struct template_op *op = (const struct template_op *) (const void *) link;

        if (op->sent < op->size)
            return true;
    }
    return false;
}
