/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 2: opening and closing. A class is an endpoint, a context a set of queues of it. Closing is
 * in two halves: after stop nothing is outstanding, after destroy nothing is left.
 */

#include "template.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int32_t class_name(struct na_plugin_class *na_class, const struct na_plugin_init *init);
static int32_t context_open(struct na_plugin_context *context);
static void context_close(struct na_plugin_context *context);

int32_t template_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    int32_t status;

    (void) host_class;
    if (strcmp(init->protocol, TEMPLATE_PROTOCOL) != 0)
        return NA_PLUGIN_PROTONOSUPPORT;
    if (init->max_contexts == 0 || init->max_contexts > TEMPLATE_CONTEXTS) {
        TEMPLATE_ERROR("%u contexts are wanted, 1 to %u are possible", init->max_contexts,
                       TEMPLATE_CONTEXTS);
        return NA_PLUGIN_INVALID_ARG;
    }
    na_class = template_host->mem_alloc(sizeof(*na_class), 0);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    /* From here on the core calls finalize whatever we return: it finds what was made so far. */
    *class_p = na_class;
    (void) pthread_mutex_init(&na_class->lock, NULL);
    template_list_init(&na_class->memory);
    na_class->max_contexts = init->max_contexts;
    na_class->busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    na_class->no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    na_class->probe = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (na_class->probe < 0) {
        TEMPLATE_ERROR("no socket: %s", strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    status = class_name(na_class, init);
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    na_class->self = template_peer_get_locked(na_class, na_class->name);
    if (na_class->self == NULL)
        return NA_PLUGIN_NOMEM;
    /* The limits. The core checks sizes and tags against them, we need not. */
    info->max_tag = UINT32_MAX;
    info->capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH;
    if (!na_class->busy)
        info->capabilities |= NA_PLUGIN_CAP_WAIT_FD;
    info->max_unexpected_size = TEMPLATE_MESSAGE;
    info->max_expected_size = TEMPLATE_MESSAGE;
    return NA_PLUGIN_SUCCESS;
}

/* Takes a class in any state that initialize can leave it in, and frees what a caller forgot. */
int32_t template_finalize(struct na_plugin_class *na_class)
{
    while (!template_list_is_empty(&na_class->memory))
        template_mem_destroy(na_class, (struct na_plugin_mem *) (void *) na_class->memory.next);
    for (uint32_t i = 0; i < TEMPLATE_BUCKETS; i++) {
        while (na_class->peers[i] != NULL) {
            struct na_plugin_addr *peer = na_class->peers[i];

            na_class->peers[i] = peer->next;
            template_host->mem_free(peer);
        }
    }
    if (na_class->probe >= 0)
        (void) close(na_class->probe);
    (void) pthread_mutex_destroy(&na_class->lock);
    template_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

int32_t template_context_create(struct na_plugin_class *na_class,
                                struct na_host_context *host_context, uint32_t id,
                                struct na_plugin_context **context_p)
{
    struct na_plugin_context *context;
    int32_t status;

    (void) host_context;
    if (id >= na_class->max_contexts || na_class->contexts[id] != NULL)
        return NA_PLUGIN_INVALID_ARG;
    context = template_host->mem_alloc(sizeof(*context), 0);
    if (context == NULL)
        return NA_PLUGIN_NOMEM;
    context->na_class = na_class;
    context->id = id;
    context->socket = context->timer = context->event = context->epoll = -1;
    template_list_init(&context->sends);
    template_list_init(&context->transfers);
    template_list_init(&context->serves);
    template_list_init(&context->expected);
    template_list_init(&context->unexpected);
    template_list_init(&context->held);
    status = context_open(context);
    if (status != NA_PLUGIN_SUCCESS) {
        context_close(context);
        return status;
    }
    na_class->contexts[id] = context;
    *context_p = context;
    return NA_PLUGIN_SUCCESS;
}

/* Every operation that was accepted is completed here, if it was not before: exactly once. */
int32_t template_context_stop(struct na_plugin_context *context)
{
    (void) pthread_mutex_lock(&context->na_class->lock);
    context->stopped = true;
    template_complete_all(context, NA_PLUGIN_CANCELED, NULL, 0);
    (void) pthread_mutex_unlock(&context->na_class->lock);
    return NA_PLUGIN_SUCCESS;
}

int32_t template_context_destroy(struct na_plugin_context *context)
{
    struct na_plugin_class *na_class = context->na_class;

    (void) pthread_mutex_lock(&na_class->lock);
    na_class->contexts[context->id] = NULL;
    while (!template_list_is_empty(&context->held))
        template_held_free(context, (struct template_held *) (void *) context->held.next);
    template_serves_free(context);
    (void) pthread_mutex_unlock(&na_class->lock);
    context_close(context);
    return NA_PLUGIN_SUCCESS;
}

/* What follows "://" in the init string names the endpoint; without it, chance does. */
static int32_t class_name(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    uint64_t random;

    if (init->address != NULL && init->address[0] != '\0') {
        if (!template_name_is_valid(init->address)) {
            TEMPLATE_ERROR("'%.80s' cannot name an endpoint: letters, digits and ._- can, up to %u",
                           init->address, TEMPLATE_NAME_MAX);
            return NA_PLUGIN_INVALID_ARG;
        }
        (void) snprintf(na_class->name, sizeof(na_class->name), "%s", init->address);
        return NA_PLUGIN_SUCCESS;
    }
    if (getrandom(&random, sizeof(random), 0) != (ssize_t) sizeof(random))
        return NA_PLUGIN_IO_ERROR;
    (void) snprintf(na_class->name, sizeof(na_class->name), "%ld-%016" PRIx64, (long) getpid(),
                    random);
    return NA_PLUGIN_SUCCESS;
}

/* Names are in the abstract space: they go with their process, however that ends. Anybody on the
 * machine can send there, so the kernel is asked to say with each datagram who did. */
static int32_t context_open(struct na_plugin_context *context)
{
    const int on = 1, room = 1 << 20;
    struct sockaddr_un where;
    socklen_t length = template_sockaddr(&where, context->na_class->name, context->id);

    context->frame = template_host->mem_alloc(sizeof(struct template_frame) + TEMPLATE_PIECE, 64);
    if (context->frame == NULL)
        return NA_PLUGIN_NOMEM;
    context->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (context->socket < 0) {
        TEMPLATE_ERROR("no socket: %s", strerror(errno));
        return NA_PLUGIN_NOMEM;
    }
    (void) setsockopt(context->socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (setsockopt(context->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
        bind(context->socket, (struct sockaddr *) &where, length) != 0) {
        TEMPLATE_ERROR("no endpoint named '%s': %s", context->na_class->name, strerror(errno));
        return errno == EADDRINUSE ? NA_PLUGIN_ADDRINUSE : NA_PLUGIN_IO_ERROR;
    }
    return template_sleep_open(context);
}

static void context_close(struct na_plugin_context *context)
{
    template_sleep_close(context);
    if (context->socket >= 0)
        (void) close(context->socket);
    template_host->mem_free(context->frame);
    template_host->mem_free(context);
}
