/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A child of fork() has a copy of each class of its parent, shares their connections and memory
 * with the parent, and has none of the parent's threads: any use of such a class would disturb the
 * parent. So each class records the process that opened it, and in any other process its functions
 * log that and return an error. The child may open classes of its own, so that every lock of the
 * core must be free in it.
 */

#include "na/fork.h"

#include "na/classes.h"
#include "na/loader_lock.h"
#include "na/log.h"
#include "na/signals.h"
#include "na_plugin.h"

unsigned int na_forks;
pthread_mutex_t na_cleanup_mutex = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_watch(void);
static void fork_before(void);
static void fork_in_parent(void);
static void fork_in_child(void);
static int32_t refuse_message(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag);
static int32_t refuse_receive(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                              void *data, struct na_plugin_addr *source, uint32_t source_id,
                              uint32_t tag);
static int32_t refuse_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data);
static int32_t refuse_transfer(struct na_plugin_context *context, void *op,
                               struct na_plugin_mem *local, uint64_t local_offset,
                               struct na_plugin_mem *remote, uint64_t remote_offset,
                               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
static int32_t refuse_poll(struct na_plugin_context *context, uint32_t *count);

void na_fork_watch(void)
{
    (void) pthread_once(&fork_once, fork_watch);
}

UTIL_COLD na_return_t na_fork_refused(const char *function)
{
    NA_LOG_ERROR("%s(): the object was inherited by fork() and is the parent's; open a class of "
                 "this process",
                 function);
    return NA_PERMISSION;
}

void na_fork_disable(struct na_plugin *table)
{
    table->msg_send_unexpected = refuse_message;
    table->msg_send_expected = refuse_message;
    table->msg_recv_unexpected = refuse_unexpected;
    table->msg_recv_expected = refuse_receive;
    table->put = table->put != NULL ? refuse_transfer : NULL;
    table->get = table->get != NULL ? refuse_transfer : NULL;
    table->poll = refuse_poll;
}

static void fork_watch(void)
{
    (void) pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

static void fork_before(void)
{
    na_loader_fork_begin();
    (void) pthread_mutex_lock(&na_classes_mutex);
    (void) pthread_mutex_lock(&na_signals_mutex);
    (void) pthread_mutex_lock(&na_log_mutex);
}

static void fork_in_parent(void)
{
    (void) pthread_mutex_unlock(&na_log_mutex);
    (void) pthread_mutex_unlock(&na_signals_mutex);
    (void) pthread_mutex_unlock(&na_classes_mutex);
    na_loader_fork_end();
}

static void fork_in_child(void)
{
    na_forks++;
    /* fork_before() does not take this lock, because NA_Cleanup() may hold it for long. If it did,
     * the child's copy is locked by no thread of the child: it is initialized again. */
    (void) pthread_mutex_init(&na_cleanup_mutex, NULL);
    na_classes_disable();
    fork_in_parent();
}

static int32_t refuse_message(struct na_plugin_context *context, void *op, const void *buf,
                              uint64_t size, void *data, struct na_plugin_addr *dest,
                              uint32_t dest_id, uint32_t tag)
{
    (void) context, (void) op, (void) buf, (void) size, (void) data;
    (void) dest, (void) dest_id, (void) tag;
    return NA_PLUGIN_PERMISSION;
}

static int32_t refuse_receive(struct na_plugin_context *context, void *op, void *buf, uint64_t size,
                              void *data, struct na_plugin_addr *source, uint32_t source_id,
                              uint32_t tag)
{
    return refuse_message(context, op, buf, size, data, source, source_id, tag);
}

static int32_t refuse_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data)
{
    return refuse_message(context, op, buf, size, data, NULL, 0, 0);
}

static int32_t refuse_transfer(struct na_plugin_context *context, void *op,
                               struct na_plugin_mem *local, uint64_t local_offset,
                               struct na_plugin_mem *remote, uint64_t remote_offset,
                               uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) context, (void) op, (void) local, (void) local_offset, (void) remote;
    (void) remote_offset, (void) length, (void) addr, (void) remote_id;
    return NA_PLUGIN_PERMISSION;
}

static int32_t refuse_poll(struct na_plugin_context *context, uint32_t *count)
{
    (void) context, (void) count;
    return NA_PLUGIN_PERMISSION;
}
