/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles: their buffers, NA operations, references, and the functions of the API on them. */
#include "hg/handle.h"

#include "engine/context_timer.h"
#include "engine/probes.h"
#include "hg/deadline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Handles that a pool of an origin grows by. */
#define HG_ORIGIN_STEP 16u

/* Bytes at the start of a send buffer that are zeroed. */
#define HG_CLEARED_SIZE 512u

static hg_return_t hg_handle_open(struct hg_handle *handle);
static void hg_handle_close(struct hg_handle *handle);
static hg_return_t hg_msg_open(const struct hg_class_path *path, struct hg_msg *msg, bool is_in,
                               unsigned long na_flags);
static void hg_msg_close(const struct hg_class_path *path, struct hg_msg *msg);
static hg_return_t hg_handle_set_target(struct hg_handle *handle, hg_addr_t addr, hg_id_t id);
static hg_return_t hg_handle_prepare(struct hg_handle *handle);
static int32_t hg_handle_other_end_refs(struct hg_handle *handle);
static void hg_handle_unlink_other_end(struct hg_handle *handle);
static bool hg_handle_can_set(const struct hg_handle *handle, hg_addr_t addr);

hg_return_t HG_Create(hg_context_t *context, hg_addr_t addr, hg_id_t id, hg_handle_t *handle_p)
{
    enum hg_path path = addr != HG_ADDR_NULL ? hg_addr_get_path(addr) : HG_PATH_MAIN;
    struct hg_handle *handle;
    hg_return_t ret;

    if (hg_context_fork_refused(context, __func__))
        return HG_PERMISSION;
    if (context == NULL || handle_p == NULL ||
        (addr != HG_ADDR_NULL && addr->hg_class != context->hg_class)) {
        HG_LOG_ERROR("cannot create a handle: context %p, address %p, result %p; pass a context, "
                     "and an address of its class",
                     (void *) context, (void *) addr, (void *) handle_p);
        return HG_INVALID_ARG;
    }
    /* Without an address or id, HG_Reset() sets it later. */
    handle = hg_handle_take(context, path, addr, id, &ret);
    if (handle == NULL)
        return ret;
    ret = hg_handle_attach(handle);
    if (ret != HG_SUCCESS) {
        hg_handle_unref(handle);
        return ret;
    }
    *handle_p = handle;
    return HG_SUCCESS;
}

hg_return_t hg_handle_attach(struct hg_handle *handle)
{
    const struct hg_rpc_class *hg_class = hg_rpc_class(handle->info.hg_class);
    hg_return_t ret;

    if (hg_class->handle_create == NULL)
        return HG_SUCCESS;
    ret = hg_class->handle_create(handle, hg_class->handle_create_arg);
    if (ret != HG_SUCCESS)
        HG_LOG_ERROR("the handle-create callback failed: %s", HG_Error_to_string(ret));
    return ret;
}

hg_return_t HG_Destroy(hg_handle_t handle)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle == HG_HANDLE_NULL)
        return HG_SUCCESS;
    if (!hg_handle_is_usable(handle, "destroy"))
        return HG_INVALID_ARG;
    hg_handle_unref(handle);
    return HG_SUCCESS;
}

hg_return_t HG_Reset(hg_handle_t handle, hg_addr_t addr, hg_id_t id)
{
    enum hg_path path;
    hg_return_t ret;

    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (!hg_handle_can_set(handle, addr) || !hg_handle_is_usable(handle, "reset"))
        return HG_INVALID_ARG;
    if (atomic_load_explicit(&handle->state, memory_order_acquire) != HG_HANDLE_IDLE) {
        HG_LOG_ERROR("cannot reset a handle on which an operation runs; wait for its callback");
        return HG_BUSY;
    }
    path = addr != HG_ADDR_NULL ? hg_addr_get_path(addr) : (enum hg_path) handle->path;
    if (path != (enum hg_path) handle->path) {
        ret = hg_handle_set_path(handle, path);
        if (ret != HG_SUCCESS)
            return ret;
    }
    hg_extra_free(&handle->in_extra);
    hg_extra_free(&handle->out_extra);
    handle->out.has_payload = false;
    ret = hg_handle_set_target(handle, addr, id);
    if (ret == HG_SUCCESS)
        handle->info.context_id = 0;
    return ret;
}

hg_return_t HG_Ref_incr(hg_handle_t handle)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (!hg_handle_is_usable(handle, "add a reference to"))
        return HG_INVALID_ARG;
    hg_handle_ref(handle);
    return HG_SUCCESS;
}

int32_t HG_Ref_get(hg_handle_t handle)
{
    int32_t refs;

    if (hg_handle_fork_refused(handle, __func__))
        return -1;
    if (handle == HG_HANDLE_NULL)
        return -1;
    refs = atomic_load(&handle->ref);
    /* In RPCs to the own address, programs expect both ends to share one handle and its count. */
    if (atomic_load_explicit(&handle->other_end, memory_order_relaxed) != NULL)
        refs += hg_handle_other_end_refs(handle);
    return refs;
}

const struct hg_info *HG_Get_info(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? &handle->info : NULL;
}

hg_return_t HG_Set_data(hg_handle_t handle, void *data, void (*free_callback)(void *))
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle == HG_HANDLE_NULL) {
        HG_LOG_ERROR("cannot attach data: the handle is NULL");
        return HG_INVALID_ARG;
    }
    handle->data = data;
    handle->data_free = free_callback;
    return HG_SUCCESS;
}

void *HG_Get_data(hg_handle_t handle)
{
    return handle != HG_HANDLE_NULL ? handle->data : NULL;
}

hg_return_t HG_Set_target_id(hg_handle_t handle, uint8_t id)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (handle == HG_HANDLE_NULL) {
        HG_LOG_ERROR("cannot set target id %u: the handle is NULL", id);
        return HG_INVALID_ARG;
    }
    handle->info.context_id = id;
    return HG_SUCCESS;
}

hg_return_t HG_Cancel(hg_handle_t handle)
{
    if (hg_handle_fork_refused(handle, __func__))
        return HG_PERMISSION;
    if (!hg_handle_is_usable(handle, "cancel"))
        return HG_INVALID_ARG;
    if (atomic_load(&handle->state) != HG_HANDLE_ACTIVE)
        return HG_SUCCESS;
    HG_PROBE1(cancel, handle);
    /* With a deadline the timer ends the operation even if the transport does not cancel it. */
    atomic_store(&handle->is_canceled, true);
    if (atomic_load(&handle->pending) > HG_PENDING_TIMER)
        hg_context_expedite(handle->info.context, &handle->timer, hg_clock_ns() + HG_CANCEL_NS);
    return handle->kind->cancel(handle);
}

struct hg_handle *hg_handle_take(hg_context_t *context, enum hg_path path, hg_addr_t addr,
                                 hg_id_t id, hg_return_t *ret_p)
{
    struct hg_handle *handle =
        hg_pool_get(&hg_rpc_context(context)->origins[path], HG_ORIGIN_STEP, ret_p);

    if (handle == NULL) {
        HG_LOG_ERROR("cannot create a handle: %s", HG_Error_to_string(*ret_p));
        return NULL;
    }
    atomic_store_explicit(&handle->ref, 1, memory_order_relaxed);
    *ret_p = hg_handle_set_target(handle, addr, id);
    if (*ret_p == HG_SUCCESS)
        *ret_p = hg_handle_prepare(handle);
    if (*ret_p == HG_SUCCESS)
        return handle;
    hg_handle_unref(handle);
    return NULL;
}

struct hg_handle *hg_handle_new(const struct hg_pool *pool, hg_return_t *ret_p)
{
    hg_context_t *context = pool->context;
    size_t size =
        (sizeof(struct hg_handle) + UTIL_CACHE_LINE - 1) / UTIL_CACHE_LINE * UTIL_CACHE_LINE;
    struct hg_handle *handle = aligned_alloc(UTIL_CACHE_LINE, size);

    if (handle == NULL) {
        *ret_p = HG_NOMEM;
        return NULL;
    }
    memset(handle, 0, size);
    handle->info.hg_class = context->hg_class;
    handle->info.context = context;
    handle->kind = pool->kind;
    atomic_init(&handle->state, HG_HANDLE_UNUSED);
    handle->is_origin = pool->kind->is_origin;
    handle->path = (uint8_t) pool->path;
    if (handle->is_origin) {
        handle->slot = atomic_fetch_add_explicit(&hg_rpc_context(context)->slot_count, 1,
                                                 memory_order_relaxed);
        handle->generation = hg_rpc_context(context)->generation;
    } else {
        handle->source.hg_class = context->hg_class;
        handle->source.path = handle->path;
        handle->source.is_embedded = true;
        handle->info.addr = &handle->source;
    }
    (void) pthread_mutex_init(&handle->lock, NULL);
    hg_proc_init(&handle->proc, context->hg_class, HG_NOHASH,
                 hg_proc_class_get_encoding(context->hg_class));
    hg_proc_set_handle(&handle->proc, handle);
    handle->proc.peer_p = &handle->info.addr;
    handle->free_proc = handle->proc;
    *ret_p = hg_handle_open(handle);
    if (*ret_p != HG_SUCCESS) {
        hg_handle_delete(handle);
        return NULL;
    }
    return handle;
}

void hg_handle_delete(struct hg_handle *handle)
{
    if (handle->data_free != NULL)
        handle->data_free(handle->data);
    hg_handle_close(handle);
    hg_extra_free(&handle->in_extra);
    hg_extra_free(&handle->out_extra);
    hg_proc_fini(&handle->proc);
    hg_session_unref(handle->session);
    free(handle->stale);
    (void) pthread_mutex_destroy(&handle->lock);
    free(handle);
}

hg_return_t hg_handle_open_ack(struct hg_handle *handle)
{
    if (handle->ack.op != NULL)
        return HG_SUCCESS;
    return hg_msg_open(hg_handle_path(handle), &handle->ack, false, NA_RECV);
}

hg_return_t hg_handle_set_path(struct hg_handle *handle, enum hg_path path)
{
    uint8_t old_path = handle->path;
    hg_return_t ret;

    handle->is_buf_given = false;
    hg_handle_close(handle);
    handle->path = (uint8_t) path;
    ret = hg_handle_open(handle);
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    HG_LOG_ERROR("cannot move a handle to another path: %s", HG_Error_to_string(ret));
    hg_handle_close(handle);
    handle->path = old_path;
    if (hg_handle_open(handle) != HG_SUCCESS)
        hg_handle_close(handle);
    return ret;
}

hg_return_t hg_handle_cancel_msg(struct hg_handle *handle, const struct hg_msg *msg)
{
    na_return_t na_return;

    /* hg_detach_messages() may be exchanging the messages. */
    (void) pthread_mutex_lock(&handle->lock);
    na_return = NA_Cancel(hg_handle_path(handle)->na_class, hg_handle_na_context(handle), msg->op);
    (void) pthread_mutex_unlock(&handle->lock);
    return hg_return_from_na(na_return);
}

void hg_handle_drop_other_end(struct hg_handle *handle)
{
    struct hg_handle *other_end = atomic_load_explicit(&handle->other_end, memory_order_relaxed);

    if (other_end != NULL)
        atomic_store_explicit(&other_end->other_end, NULL, memory_order_relaxed);
    atomic_store_explicit(&handle->other_end, NULL, memory_order_relaxed);
}

bool UTIL_COLD hg_handle_refuse(const struct hg_handle *handle, const char *purpose)
{
    HG_LOG_ERROR("cannot %s a handle, %p: %s", purpose, (const void *) handle,
                 handle == HG_HANDLE_NULL ? "pass one"
                                          : "it was destroyed as often as it was referenced");
    return false;
}

void UTIL_COLD hg_handle_log_bad_event(const struct hg_handle *handle, enum hg_handle_event event)
{
    HG_LOG_ERROR("event %d came to handle %p in state %" PRIu32
                 ", where it does not happen; this is "
                 "a bug of the library",
                 (int) event, (const void *) handle, atomic_load(&handle->state));
}

void hg_handle_release(struct hg_handle *handle)
{
    atomic_store_explicit(&handle->ref, 0, memory_order_relaxed);
    if (util_unlikely(atomic_load_explicit(&handle->other_end, memory_order_relaxed) != NULL))
        hg_handle_unlink_other_end(handle);
    if (handle->in_extra.block != NULL)
        hg_extra_free(&handle->in_extra);
    if (handle->out_extra.block != NULL)
        hg_extra_free(&handle->out_extra);
    handle->in.has_payload = false;
    handle->out.has_payload = false;
    handle->kind->released(handle);
}

static int32_t hg_handle_other_end_refs(struct hg_handle *handle)
{
    pthread_mutex_t *lock = &hg_rpc_class(handle->info.hg_class)->self_lock;
    struct hg_handle *other_end;
    int32_t refs = 0;

    (void) pthread_mutex_lock(lock);
    other_end = atomic_load_explicit(&handle->other_end, memory_order_relaxed);
    if (other_end != NULL)
        refs = atomic_load(&other_end->ref);
    (void) pthread_mutex_unlock(lock);
    return refs;
}

static void hg_handle_unlink_other_end(struct hg_handle *handle)
{
    pthread_mutex_t *lock = &hg_rpc_class(handle->info.hg_class)->self_lock;

    (void) pthread_mutex_lock(lock);
    hg_handle_drop_other_end(handle);
    (void) pthread_mutex_unlock(lock);
}

void hg_extra_free(struct hg_extra *extra)
{
    (void) HG_Bulk_free(extra->remote);
    extra->remote = HG_BULK_NULL;
    if (extra->block != NULL)
        hg_block_put(extra->block);
    extra->block = NULL;
    extra->size = 0;
}

static bool hg_handle_can_set(const struct hg_handle *handle, hg_addr_t addr)
{
    if (handle != HG_HANDLE_NULL && handle->is_origin &&
        (addr == HG_ADDR_NULL || addr->hg_class == handle->info.hg_class))
        return true;
    HG_LOG_ERROR("cannot reset handle %p: it has to be made by HG_Create(), and the address %p to "
                 "be of its class",
                 (const void *) handle, (void *) addr);
    return false;
}

/* Set address and RPC; HG_ADDR_NULL removes the address, id 0 keeps the RPC. */
static hg_return_t hg_handle_set_target(struct hg_handle *handle, hg_addr_t addr, hg_id_t id)
{
    struct hg_rpc *rpc = hg_registry_find(&hg_rpc_class(handle->info.hg_class)->registry, id);
    hg_addr_t new_addr = HG_ADDR_NULL;
    hg_return_t ret;

    if (rpc == NULL && id != 0) {
        HG_LOG_ERROR("RPC %#" PRIx64 " is not registered; call HG_Register() first", id);
        return HG_NOENTRY;
    }
    if (rpc == NULL)
        rpc = handle->rpc;
    if (addr != HG_ADDR_NULL) {
        ret = HG_Addr_dup(handle->info.hg_class, addr, &new_addr);
        if (ret != HG_SUCCESS)
            return ret;
    }
    if (handle->info.addr != HG_ADDR_NULL)
        (void) HG_Addr_free(handle->info.hg_class, handle->info.addr);
    handle->info.addr = new_addr;
    handle->rpc = rpc;
    handle->info.id = rpc != NULL ? rpc->id : 0;
    return HG_SUCCESS;
}

/* Reset a handle that comes from the pool. */
static hg_return_t hg_handle_prepare(struct hg_handle *handle)
{
    hg_handle_advance(handle, hg_origin_next, HG_HANDLE_UNUSED, HG_EVENT_HAND_OVER);
    handle->info.context_id = 0;
    handle->deadline_ms = hg_class_get_deadline(handle->info.hg_class);
    return handle->in.op != NULL ? HG_SUCCESS : hg_handle_open(handle);
}

static hg_return_t hg_handle_open(struct hg_handle *handle)
{
    const struct hg_class_path *path = hg_handle_path(handle);
    hg_return_t ret;

    if (handle->is_origin && handle->slot > hg_handle_tags(handle)->slot_mask) {
        HG_LOG_ERROR("%" PRIu32 " handles are in use, the tags of this transport allow no more; "
                     "destroy some",
                     handle->slot);
        return HG_AGAIN;
    }
    ret = hg_msg_open(path, &handle->in, true, handle->is_origin ? NA_SEND : NA_RECV);
    if (ret == HG_SUCCESS)
        ret = hg_msg_open(path, &handle->out, false, handle->is_origin ? NA_RECV : NA_SEND);
    return ret;
}

static void hg_handle_close(struct hg_handle *handle)
{
    const struct hg_class_path *path = hg_handle_path(handle);

    hg_msg_close(path, &handle->in);
    hg_msg_close(path, &handle->out);
    hg_msg_close(path, &handle->ack);
}

static hg_return_t hg_msg_open(const struct hg_class_path *path, struct hg_msg *msg, bool is_in,
                               unsigned long na_flags)
{
    na_return_t na_return = NA_SUCCESS;

    msg->size = is_in ? path->unexpected_size : path->expected_size;
    msg->header = is_in ? path->unexpected_header : path->expected_header;
    msg->has_payload = false;
    msg->op = NA_Op_create(path->na_class, NA_OP_SINGLE);
    if (msg->op == NULL)
        return HG_NOMEM;
    msg->buf = NA_Msg_buf_alloc(path->na_class, msg->size, na_flags, &msg->plugin_data);
    if (msg->buf == NULL) {
        hg_msg_close(path, msg);
        return HG_NOMEM;
    }
    /* A program may not write to its reserved bytes, and they must not leak old memory. */
    if (na_flags & NA_SEND) {
        memset(msg->buf, 0, msg->size < HG_CLEARED_SIZE ? msg->size : HG_CLEARED_SIZE);
        na_return = is_in ? NA_Msg_init_unexpected(path->na_class, msg->buf, msg->size)
                          : NA_Msg_init_expected(path->na_class, msg->buf, msg->size);
    }
    if (na_return != NA_SUCCESS)
        hg_msg_close(path, msg);
    return hg_return_from_na(na_return);
}

static void hg_msg_close(const struct hg_class_path *path, struct hg_msg *msg)
{
    if (msg->buf != NULL)
        NA_Msg_buf_free(path->na_class, msg->buf, msg->plugin_data);
    if (msg->op != NULL)
        NA_Op_destroy(path->na_class, msg->op);
    msg->buf = NULL;
    msg->op = NULL;
}
