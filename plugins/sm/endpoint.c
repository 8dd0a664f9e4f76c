/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing an endpoint (a class), and what a fork does to it. */

#include "sm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SM_LINGER_NS UINT64_C(500000000)

static int32_t sm_class_configure(struct na_plugin_class *na_class,
                                  const struct na_plugin_init *init, const char **name_p);
static bool sm_class_choose_rma(struct na_plugin_class *na_class,
                                const struct na_plugin_init *init);
static int32_t sm_class_open(struct na_plugin_class *na_class, const char *name);
static void sm_class_describe(struct na_plugin_class *na_class);
static void sm_class_linger(struct na_plugin_class *na_class);
static void sm_fork_before(void);
static void sm_fork_parent(void);
static void sm_fork_child(void);
static void sm_fork_reset_conns(struct na_plugin_class *na_class);
static void sm_fork_free_lock(struct kit_lock *lock);

/* All classes of the process. The child of a fork closes their descriptors. */
static pthread_mutex_t sm_classes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kit_link sm_classes = {&sm_classes, &sm_classes};

int32_t sm_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    const char *name = NULL;
    int32_t ret;

    (void) host_class;
    na_class = kit_host->mem_alloc(sizeof(*na_class), _Alignof(struct na_plugin_class));
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    na_class->segment.fd = -1;
    na_class->segment.file_fd = -1;
    na_class->send_fd = -1;
    na_class->probe_fd = -1;
    na_class->pid = (uint32_t) getpid();
    kit_list_init(&na_class->backlog);
    kit_list_init(&na_class->peers);
    kit_list_init(&na_class->registry.regions.all);
    kit_list_init(&na_class->registry.free_mems);
    (void) pthread_mutex_lock(&sm_classes_lock);
    if (kit_list_empty(&sm_classes))
        sm_user_set();
    kit_list_append(&sm_classes, &na_class->link);
    (void) pthread_mutex_unlock(&sm_classes_lock);

    ret = sm_class_configure(na_class, init, &name);
    if (ret == NA_PLUGIN_SUCCESS) {
        sm_reap_all();
        ret = sm_class_open(na_class, name);
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        (void) sm_class_finalize(na_class);
        return ret;
    }
    info->max_tag = UINT32_MAX;
    info->capabilities = na_class->capabilities;
    info->max_unexpected_size = na_class->max_message;
    info->max_expected_size = na_class->max_message;
    info->unexpected_header_size = 0;
    info->expected_header_size = 0;
    info->max_rma_size = 0;
    *class_p = na_class;
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_class_finalize(struct na_plugin_class *na_class)
{
    if (na_class == NULL)
        return NA_PLUGIN_SUCCESS;
    (void) pthread_mutex_lock(&sm_classes_lock);
    kit_list_remove(&na_class->link);
    (void) pthread_mutex_unlock(&sm_classes_lock);
    if (na_class->segment.header != NULL && !na_class->forked) {
        sm_class_linger(na_class);
        atomic_store_explicit(&na_class->segment.header->state, SM_STATE_CLOSED,
                              memory_order_seq_cst);
    }
    for (uint32_t i = 0; na_class->contexts != NULL && i < na_class->max_contexts; i++)
        sm_context_teardown(&na_class->contexts[i]);
    sm_peer_destroy_all(na_class);
    kit_host->mem_free(na_class->contexts);
    sm_registry_destroy(na_class);
    sm_pool_close(na_class);
    sm_segment_destroy(na_class);
    if (na_class->send_fd >= 0)
        (void) close(na_class->send_fd);
    if (na_class->probe_fd >= 0)
        (void) close(na_class->probe_fd);
    kit_host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/*
 * A forked child closes the descriptors of the parent's classes: without exec it would keep the
 * parent's file locks and sockets alive after the parent's death.
 */
void sm_class_prepare_fork(void)
{
    (void) pthread_atfork(sm_fork_before, sm_fork_parent, sm_fork_child);
}

static int32_t sm_class_configure(struct na_plugin_class *na_class,
                                  const struct na_plugin_init *init, const char **name_p)
{
    const char *reason;
    struct kit_key random;
    uint64_t wanted;

    if (!sm_class_choose_rma(na_class, init) ||
        sm_pool_configure(na_class, init) != NA_PLUGIN_SUCCESS)
        return NA_PLUGIN_INVALID_ARG;
    if (init->address != NULL && init->address[0] != '\0') {
        if (!sm_name_check(init->address, strlen(init->address), &reason)) {
            SM_LOG_ERROR("'%.80s' cannot name an endpoint: %s", init->address, reason);
            return NA_PLUGIN_INVALID_ARG;
        }
        *name_p = init->address;
    }
    if (init->max_contexts == 0 || init->max_contexts > SM_MAX_CONTEXTS) {
        SM_LOG_ERROR("%u contexts are wanted, 1 to %u are possible", init->max_contexts,
                     SM_MAX_CONTEXTS);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (kit_key_draw(&random) != NA_PLUGIN_SUCCESS ||
        kit_regions_open(&na_class->registry.regions) != NA_PLUGIN_SUCCESS ||
        kit_key_draw(&na_class->registry.secret) != NA_PLUGIN_SUCCESS) {
        SM_LOG_ERROR("no random numbers (%s)", strerror(errno));
        return NA_PLUGIN_IO_ERROR;
    }
    na_class->incarnation = na_class->registry.regions.owner;
    na_class->cookie = random.word[1];
    na_class->max_contexts = init->max_contexts;
    /* Both kinds of messages have one limit: the larger hint. */
    wanted = init->max_unexpected_size > init->max_expected_size ? init->max_unexpected_size
                                                                 : init->max_expected_size;
    na_class->max_message = wanted <= SM_MESSAGE_SPACE ? SM_MESSAGE_SPACE
                            : wanted > SM_MESSAGE_MAX  ? SM_MESSAGE_MAX
                                                       : (uint32_t) wanted;
    na_class->pid_namespace = kit_process_namespace("pid");
    na_class->busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    na_class->no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    na_class->membarrier = sm_membarrier_register();
    na_class->backlog_lock.is_elided = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0;
    na_class->registry.lock.is_elided = na_class->backlog_lock.is_elided;
    na_class->single_context = init->thread_mode != 0;
    na_class->capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_CANCEL_SEND |
                             NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS;
    if (!na_class->force_copy)
        na_class->capabilities |= NA_PLUGIN_CAP_RMA_NATIVE;
    if (!na_class->busy)
        na_class->capabilities |= NA_PLUGIN_CAP_WAIT_FD;
    return NA_PLUGIN_SUCCESS;
}

/* The init string overrides the environment, which may be meant for other endpoints. */
static bool sm_class_choose_rma(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    const char *rma = secure_getenv("AMALGAM_SM_RMA");
    char option[8] = "";
    int32_t ret = kit_option_get(init, "rma", option, sizeof(option));

    if (ret != NA_PLUGIN_NOENTRY) {
        na_class->force_copy = strcmp(option, "copy") == 0;
        if (na_class->force_copy || strcmp(option, "auto") == 0)
            return true;
        SM_LOG_ERROR("option rma is '%.40s'; 'auto' and 'copy' are known",
                     ret == NA_PLUGIN_SUCCESS ? option : "(a longer word)");
        return false;
    }
    na_class->force_copy = rma != NULL && strcmp(rma, "copy") == 0;
    if (rma != NULL && !na_class->force_copy && strcmp(rma, "auto") != 0)
        SM_LOG_WARNING("AMALGAM_SM_RMA is '%.40s'; 'auto' and 'copy' are known: taken as auto",
                       rma);
    return true;
}

static int32_t sm_class_open(struct na_plugin_class *na_class, const char *name)
{
    struct na_plugin_context *contexts;
    int32_t ret;

    contexts = kit_host->mem_alloc(na_class->max_contexts * sizeof(*contexts), SM_CACHE_LINE);
    if (contexts == NULL)
        return NA_PLUGIN_NOMEM;
    for (uint32_t i = 0; i < na_class->max_contexts; i++) {
        contexts[i].wake_fd = -1;
        contexts[i].timer_fd = -1;
        contexts[i].epoll_fd = -1;
    }
    na_class->contexts = contexts; /* a forked child closes the descriptors in it */
    ret = sm_segment_create(na_class, name);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    sm_class_describe(na_class);
    ret = sm_segment_describe(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    na_class->send_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    na_class->probe_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (na_class->send_fd < 0 || na_class->probe_fd < 0) {
        SM_LOG_ERROR("no socket (%s)%s", strerror(errno), sm_error_hint(errno));
        return NA_PLUGIN_NOMEM;
    }
    for (uint32_t i = 0; i < na_class->max_contexts; i++) {
        ret = sm_context_setup(na_class, i);
        if (ret != NA_PLUGIN_SUCCESS)
            return ret;
    }
    ret = sm_segment_publish(na_class);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    return sm_peer_get(na_class, na_class->name, na_class->incarnation, false, &na_class->self);
}

static void sm_class_describe(struct na_plugin_class *na_class)
{
    struct sm_segment_header *header = na_class->segment.header;

    header->version = SM_LAYOUT_VERSION;
    header->max_contexts = na_class->max_contexts;
    header->uid = sm_user();
    header->pid = na_class->pid;
    header->pid_namespace = na_class->pid_namespace;
    header->process = kit_process_identity();
    header->incarnation = na_class->incarnation;
    header->cookie = na_class->cookie;
    header->cookie_address = (uint64_t) (uintptr_t) &na_class->cookie;
    header->secret = na_class->registry.secret;
    header->max_unexpected = na_class->max_message;
    header->max_expected = na_class->max_message;
    header->flags = na_class->membarrier ? 0 : SM_ENDPOINT_FENCE;
    header->memory_device = na_class->segment.device;
    header->memory_inode = na_class->segment.inode;
    header->memory_fd = (uint32_t) na_class->segment.fd;
}

/*
 * Messages sent just before closing lie in our segment. Waits a moment for living receivers that
 * have not mapped our ring yet: they cannot when our file is gone.
 */
static void sm_class_linger(struct na_plugin_class *na_class)
{
    uint64_t end = kit_host->clock_ns() + SM_LINGER_NS;
    struct sm_conn *conn = NULL;

    while ((conn = sm_conn_next(na_class, conn)) != NULL)
        while (conn->peer != na_class->self && conn->state == SM_CONN_READY &&
               sm_load_acquire(&conn->peer_slot->accepted) == 0 &&
               sm_load_acquire(&conn->peer_slot->status) != SM_RING_REFUSED &&
               !sm_context_gone(conn->context_area) && kit_host->clock_ns() < end &&
               sm_peer_alive(conn->peer))
            (void) usleep(500);
}

static void sm_fork_before(void)
{
    (void) pthread_mutex_lock(&sm_classes_lock);
}

static void sm_fork_parent(void)
{
    (void) pthread_mutex_unlock(&sm_classes_lock);
}

static void sm_fork_child(void)
{
    for (struct kit_link *link = sm_classes.next; link != &sm_classes; link = link->next) {
        struct na_plugin_class *na_class = kit_container(link, struct na_plugin_class, link);
        int *descriptors[] = {&na_class->segment.fd, &na_class->segment.file_fd, &na_class->send_fd,
                              &na_class->probe_fd};

        na_class->forked = true;
        sm_fork_free_lock(&na_class->lock);
        sm_fork_free_lock(&na_class->connect_lock);
        sm_fork_free_lock(&na_class->backlog_lock);
        sm_fork_free_lock(&na_class->registry.lock);
        sm_fork_free_lock(&na_class->pool.lock);
        for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
            if (*descriptors[i] >= 0)
                (void) close(*descriptors[i]);
            *descriptors[i] = -1;
        }
        sm_fork_reset_conns(na_class);
        for (uint32_t i = 0; na_class->contexts != NULL && i < na_class->max_contexts; i++) {
            struct na_plugin_context *context = &na_class->contexts[i];

            sm_store(&context->active, false);
            context->poll_lock.is_elided = false;
            context->poll_lock.held = 1; /* the child never polls */
            sm_fork_free_lock(&context->match_lock);
            sm_wake_close(context);
        }
    }
    (void) pthread_mutex_unlock(&sm_classes_lock);
}

static void sm_fork_reset_conns(struct na_plugin_class *na_class)
{
    struct sm_conn *conn = NULL;

    while ((conn = sm_conn_next(na_class, conn)) != NULL)
        sm_fork_free_lock(&conn->lock);
    for (struct kit_link *link = na_class->peers.next; link != &na_class->peers;
         link = link->next) {
        struct na_plugin_addr *peer = kit_container(link, struct na_plugin_addr, link);

        if (peer->memory_fd >= 0)
            (void) close(peer->memory_fd);
        if (peer->ask_fd >= 0)
            (void) close(peer->ask_fd);
        peer->memory_fd = peer->ask_fd = -1;
    }
}

/* The threads that held the lock, or waited for it, do not exist in the child. */
static void sm_fork_free_lock(struct kit_lock *lock)
{
    *lock = (struct kit_lock){.is_elided = lock->is_elided};
}
