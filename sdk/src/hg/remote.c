/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sessions with the peers that are called. Addresses that are equal share a remote, which has a
 * session for each pair of a context of ours and one of the peer. The first forward asks for it by
 * a HELLO, and those that come meanwhile wait in the order in which they were forwarded.
 *
 * With two keys a HELLO is under the one that was good last, and once more under the other one if
 * the answer is under neither of the target's: one share is one guess for whoever answers.
 *
 * An answer that says that there is no session, or that the key is another one, is of anybody. So
 * it ends a forward, or an attempt to make a session, but no session: that is doubted, and goes on
 * if no other one can be made.
 */
#include "hg/remote.h"

#include "hg/deadline.h"
#include "hg/forward.h"
#include "hg/header.h"
#include "hg/hello.h"
#include "hg/sessions.h"
#include "hg/waiting.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* A context of a peer, as it is called by one of ours. */
struct hg_remote_context {
    struct hg_remote *remote;
    hg_context_t *context;
    uint8_t target; /* id of the peer's */

    /* Under the remote's lock. */
    struct hg_remote_context *next;
    struct hg_session *session; /* NULL: none yet */
    bool is_doubted;
    bool is_calling; /* a HELLO is on its way, or about to be */
    bool is_stalled; /* the transport had no resources; the next poll tries again */
    bool is_retried;
    bool is_dispatching; /* a thread starts what waits */
    bool has_turned;     /* this attempt is under both keys */
    uint8_t key;         /* number of the one of the next HELLO */
    struct hg_handle *hello;
    struct hg_waiting waiting;
    struct kit_auth_exchange exchange; /* of the HELLO; not under the lock */
};

struct hg_remote {
    struct hg_addr *addr; /* a copy of the peer's */
    uint8_t path;
    _Atomic uint32_t ref; /* of equal addresses, HELLOs, and threads that look at it */
    struct hg_remote *next;
    pthread_mutex_t lock;
    struct hg_remote_context *contexts;
};

static struct hg_handle *remote_take_idle(struct hg_remote *remote, const hg_context_t *context);
static struct hg_remote *remote_find(struct hg_addr *addr, uint8_t path);
static struct hg_remote *remote_new(struct hg_addr *addr, uint8_t path);
static struct hg_remote_context *context_find(struct hg_remote *remote,
                                              const struct hg_handle *handle);
static void context_free(struct hg_remote_context *to);
static bool context_has_session(const struct hg_remote_context *to);
static void context_age(struct hg_remote_context *to);
static void context_add(struct hg_remote_context *to, struct hg_handle *handle, bool is_first);
static void context_remove(struct hg_remote_context *to, struct hg_handle *handle);
static void context_call(struct hg_remote_context *to);
static hg_return_t context_say_hello(struct hg_remote_context *to);
static hg_return_t context_answered(const struct hg_cb_info *info);
static struct hg_session *context_session(struct hg_remote_context *to, struct hg_handle *handle,
                                          hg_return_t *ret_p);
static bool context_turn(struct hg_remote_context *to);
static void context_called(struct hg_remote_context *to, struct hg_session *session,
                           hg_return_t ret);
static void context_dispatch(struct hg_remote_context *to);
static struct hg_handle *context_take_failed(struct hg_remote_context *to);
static void context_retry(struct hg_remote *remote, hg_context_t *context);
static struct hg_remote *remotes_first(hg_class_t *hg_class);
static struct hg_remote *remotes_next(hg_class_t *hg_class, struct hg_remote *remote);

bool UTIL_COLD hg_remote_enter(struct hg_handle *handle, size_t payload, uint8_t flags,
                               hg_return_t *ret_p)
{
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    hg_context_t *context = handle->info.context;
    struct hg_remote_context *to = NULL;
    bool is_waiting = false;

    *ret_p = HG_SUCCESS;
    if (remote != NULL) {
        (void) pthread_mutex_lock(&remote->lock);
        to = context_find(remote, handle);
        if (to != NULL)
            context_age(to);
        is_waiting = to != NULL && !context_has_session(to);
        if (is_waiting) {
            if (!handle->is_deferred) /* what waited for its turn has begun */
                hg_waiting_defer(handle, payload, flags);
            context_add(to, handle, false);
            atomic_fetch_add(&remote->ref, 1);
        } else if (to != NULL && handle->session != to->session) {
            hg_session_unref(handle->session);
            handle->session = hg_session_ref(to->session);
        }
        (void) pthread_mutex_unlock(&remote->lock);
    }
    if (to == NULL) {
        HG_LOG_ERROR("cannot make a session: out of memory");
        *ret_p = HG_NOMEM;
        return true;
    }
    if (!is_waiting)
        return false;
    hg_context_wake(context); /* for the deadline, if there is one */
    context_dispatch(to);
    hg_remote_unref(remote);
    return true;
}

bool UTIL_COLD hg_remote_leave(struct hg_handle *handle)
{
    hg_context_t *context = handle->info.context;
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    const uint32_t ret = atomic_load(&handle->ret);
    struct hg_remote_context *to = NULL;
    bool is_refused = handle->is_refused;

    handle->is_refused = false;
    if (is_refused && !atomic_load(&handle->is_canceled) && remote != NULL &&
        (ret == HG_SUCCESS || ret == HG_CANCELED)) {
        (void) pthread_mutex_lock(&remote->lock);
        to = context_find(remote, handle);
        if (to != NULL) {
            atomic_store(&handle->ret, HG_SUCCESS);
            context_add(to, handle, true);
            to->is_stalled = true;
        }
        (void) pthread_mutex_unlock(&remote->lock);
    }
    if (to != NULL) {
        hg_context_refused_set(context, &hg_rpc_context(context)->are_remotes_stalled);
        return true;
    }
    if (is_refused)
        hg_handle_set_error(handle, HG_CANCELED);
    handle->is_deferred = false;
    return false;
}

bool UTIL_COLD hg_remote_cancel(struct hg_handle *handle)
{
    struct hg_remote_context *to = atomic_load(&handle->remote);
    bool was_waiting;

    if (to == NULL)
        return false;
    (void) pthread_mutex_lock(&to->remote->lock);
    was_waiting = atomic_load(&handle->remote) == to;
    if (was_waiting)
        context_remove(to, handle);
    (void) pthread_mutex_unlock(&to->remote->lock);
    if (!was_waiting)
        return false;
    hg_handle_set_error(handle, HG_CANCELED);
    hg_handle_part_done(handle);
    return true;
}

void UTIL_COLD hg_remote_doubt(struct hg_handle *handle)
{
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    struct hg_remote_context *to;

    if (remote == NULL)
        return;
    (void) pthread_mutex_lock(&remote->lock);
    to = context_find(remote, handle);
    if (to != NULL && to->session == handle->session)
        to->is_doubted = true;
    (void) pthread_mutex_unlock(&remote->lock);
}

void hg_remotes_retry(hg_context_t *context)
{
    struct hg_remote *remote;

    if (!hg_context_refused_clear(context, &hg_rpc_context(context)->are_remotes_stalled))
        return;
    remote = remotes_first(context->hg_class);
    for (; remote != NULL; remote = remotes_next(context->hg_class, remote))
        context_retry(remote, context);
}

void hg_remotes_cancel(hg_context_t *context)
{
    struct hg_remote *remote = remotes_first(context->hg_class);

    for (; remote != NULL; remote = remotes_next(context->hg_class, remote)) {
        struct hg_handle *hello;

        while ((hello = remote_take_idle(remote, context)) != NULL) {
            (void) HG_Cancel(hello);
            hg_handle_unref(hello);
        }
    }
}

void hg_remotes_drop(hg_context_t *context)
{
    struct hg_remote *remote = remotes_first(context->hg_class);

    for (; remote != NULL; remote = remotes_next(context->hg_class, remote)) {
        struct hg_remote_context **link = &remote->contexts;

        (void) pthread_mutex_lock(&remote->lock);
        while (*link != NULL) {
            struct hg_remote_context *to = *link;

            if (to->context == context) {
                *link = to->next;
                context_free(to);
            } else {
                link = &to->next;
            }
        }
        (void) pthread_mutex_unlock(&remote->lock);
    }
}

void hg_remote_unref(struct hg_remote *remote)
{
    struct hg_remotes *remotes = &hg_rpc_class(remote->addr->hg_class)->remotes;
    struct hg_remote **link;
    bool is_last;

    (void) pthread_mutex_lock(&remotes->lock);
    is_last = atomic_fetch_sub(&remote->ref, 1) == 1;
    if (is_last) {
        for (link = &remotes->first; *link != remote; link = &(*link)->next)
            ;
        *link = remote->next;
    }
    (void) pthread_mutex_unlock(&remotes->lock);
    if (!is_last)
        return;
    while (remote->contexts != NULL) {
        struct hg_remote_context *to = remote->contexts;

        remote->contexts = to->next;
        context_free(to);
    }
    (void) HG_Addr_free(remote->addr->hg_class, remote->addr);
    (void) pthread_mutex_destroy(&remote->lock);
    free(remote);
}

/* A HELLO that nothing waits for and nobody has cancelled, with a reference, or NULL. */
static struct hg_handle *remote_take_idle(struct hg_remote *remote, const hg_context_t *context)
{
    struct hg_handle *hello = NULL;

    (void) pthread_mutex_lock(&remote->lock);
    for (struct hg_remote_context *to = remote->contexts; to != NULL && hello == NULL;
         to = to->next)
        if (to->context == context && to->hello != NULL && to->waiting.first == NULL &&
            !atomic_exchange(&to->hello->is_canceled, true)) {
            hello = to->hello;
            hg_handle_ref(hello);
        }
    (void) pthread_mutex_unlock(&remote->lock);
    return hello;
}

/* The remote of an address, which keeps it; NULL without memory. */
static struct hg_remote *remote_find(struct hg_addr *addr, uint8_t path)
{
    struct hg_remotes *remotes = &hg_rpc_class(addr->hg_class)->remotes;
    na_class_t *na_class = addr->hg_class->paths[path].na_class;
    struct hg_remote *remote = atomic_load_explicit(&addr->remote[path], memory_order_acquire);

    if (remote != NULL)
        return remote;
    (void) pthread_mutex_lock(&remotes->lock);
    remote = atomic_load_explicit(&addr->remote[path], memory_order_relaxed);
    if (remote == NULL) {
        for (remote = remotes->first; remote != NULL; remote = remote->next)
            if (remote->path == path &&
                NA_Addr_cmp(na_class, remote->addr->na_addr[path], addr->na_addr[path]))
                break;
        if (remote == NULL)
            remote = remote_new(addr, path);
        if (remote != NULL)
            atomic_fetch_add(&remote->ref, 1);
        atomic_store_explicit(&addr->remote[path], remote, memory_order_release);
    }
    (void) pthread_mutex_unlock(&remotes->lock);
    return remote;
}

/* The lock of the remotes is held. The remote's own address is not one that keeps it. */
static struct hg_remote *remote_new(struct hg_addr *addr, uint8_t path)
{
    struct hg_remotes *remotes = &hg_rpc_class(addr->hg_class)->remotes;
    struct hg_remote *remote = calloc(1, sizeof(*remote));

    if (remote == NULL)
        return NULL;
    if (hg_addr_copy(addr->hg_class, addr, &remote->addr) != HG_SUCCESS) {
        free(remote);
        return NULL;
    }
    (void) pthread_mutex_init(&remote->lock, NULL);
    remote->path = path;
    remote->next = remotes->first;
    remotes->first = remote;
    return remote;
}

/* The remote's lock is held. NULL without memory. */
static struct hg_remote_context *context_find(struct hg_remote *remote,
                                              const struct hg_handle *handle)
{
    struct hg_remote_context *to = remote->contexts;

    while (to != NULL &&
           (to->context != handle->info.context || to->target != handle->info.context_id))
        to = to->next;
    if (to != NULL)
        return to;
    to = calloc(1, sizeof(*to));
    if (to == NULL)
        return NULL;
    to->remote = remote;
    to->context = handle->info.context;
    to->target = handle->info.context_id;
    hg_waiting_init(&to->waiting);
    to->next = remote->contexts;
    remote->contexts = to;
    return to;
}

static void context_free(struct hg_remote_context *to)
{
    hg_session_unref(to->session);
    free(to);
}

/* Whether there is one to go on in. The remote's lock is held, as for the next one. */
static bool context_has_session(const struct hg_remote_context *to)
{
    return to->session != NULL && !to->is_doubted;
}

/* What was never used the peer may forget, to which it is an offer. */
static void context_age(struct hg_remote_context *to)
{
    if (to->session != NULL &&
        atomic_load_explicit(&to->session->sent, memory_order_relaxed) == 0 &&
        hg_clock_ns() - to->session->made_ns > HG_OFFERS_NS / 2)
        to->is_doubted = true;
}

/* The remote's lock is held, as for the next one. */
static void context_add(struct hg_remote_context *to, struct hg_handle *handle, bool is_first)
{
    if (to->waiting.first == NULL && !to->is_calling)
        to->has_turned = false; /* what an attempt was for that did not end was cancelled */
    atomic_store(&handle->remote, to);
    hg_waiting_add(&to->waiting, handle, is_first);
}

static void context_remove(struct hg_remote_context *to, struct hg_handle *handle)
{
    hg_waiting_remove(&to->waiting, handle);
    atomic_store(&handle->remote, NULL);
}

/* Ask for a session. is_calling is set, with a reference to the remote. */
static void context_call(struct hg_remote_context *to)
{
    hg_context_t *context = to->context;
    const hg_return_t ret = context_say_hello(to);

    if (ret == HG_SUCCESS)
        return;
    kit_auth_wipe(&to->exchange, sizeof(to->exchange));
    if (ret != HG_AGAIN) {
        context_called(to, NULL, ret);
        return;
    }
    (void) pthread_mutex_lock(&to->remote->lock);
    to->is_calling = false;
    to->is_stalled = true;
    (void) pthread_mutex_unlock(&to->remote->lock);
    hg_remote_unref(to->remote);
    hg_context_refused_set(context, &hg_rpc_context(context)->are_remotes_stalled);
}

static hg_return_t context_say_hello(struct hg_remote_context *to)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(to->context->hg_class);
    struct hg_handle *handle;
    struct hg_hello hello;
    hg_return_t ret;

    handle =
        hg_handle_take(to->context, (enum hg_path) to->remote->path, to->remote->addr, 0, &ret);
    if (handle == NULL)
        return ret;
    handle->info.context_id = to->target;
    handle->deadline_ms = 0; /* what waits has deadlines of its own */
    kit_auth_exchange_begin(rpc_class->secrets[to->key], &to->exchange);
    memcpy(hello.instance, rpc_class->instance, sizeof(hello.instance));
    memcpy(hello.share, to->exchange.share, sizeof(hello.share));
    memcpy(handle->in.buf + hg_msg_payload_offset(&handle->in, HG_CORE_HEADER_HELLO), &hello,
           sizeof(hello));
    (void) pthread_mutex_lock(&to->remote->lock);
    to->hello = handle;
    (void) pthread_mutex_unlock(&to->remote->lock);
    ret = hg_forward_hello(handle, context_answered, to, sizeof(hello));
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    (void) pthread_mutex_lock(&to->remote->lock);
    to->hello = NULL;
    (void) pthread_mutex_unlock(&to->remote->lock);
    hg_handle_unref(handle);
    return ret;
}

static hg_return_t context_answered(const struct hg_cb_info *info)
{
    struct hg_handle *handle = info->info.forward.handle;
    struct hg_remote_context *to = info->arg;
    const bool is_answered = info->ret == HG_SUCCESS;
    struct hg_session *session = NULL;
    hg_return_t ret = info->ret;

    /* A HELLO is no RPC. */
    hg_count_own_add(&handle->req_count[handle->path], UINT64_MAX);
    if (is_answered) {
        hg_count_own_add(&handle->resp_count, UINT64_MAX);
        hg_count_own_add(&handle->done_count, UINT64_MAX);
        session = context_session(to, handle, &ret);
    }
    kit_auth_wipe(&to->exchange, sizeof(to->exchange));
    (void) pthread_mutex_lock(&to->remote->lock);
    to->hello = NULL;
    (void) pthread_mutex_unlock(&to->remote->lock);
    hg_handle_unref(handle);
    if (is_answered && ret == HG_PERMISSION && context_turn(to)) {
        context_dispatch(to);
        hg_remote_unref(to->remote);
    } else {
        context_called(to, session, ret);
    }
    return HG_SUCCESS;
}

/* The session that an answer makes, or NULL with an error. */
static struct hg_session *context_session(struct hg_remote_context *to, struct hg_handle *handle,
                                          hg_return_t *ret_p)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(to->context->hg_class);
    const size_t said = offsetof(struct hg_hello_ack, proof);
    const struct hg_msg *out = &handle->out;
    struct hg_session *session;
    struct kit_auth_keys keys;
    struct hg_hello_ack ack;
    struct hg_hello hello;
    uint32_t proofs, proof;

    memset(&ack, 0, sizeof(ack));
    *ret_p = HG_PROTOCOL_ERROR;
    if (out->used <= said || out->used > sizeof(ack) ||
        (out->used - said) % sizeof(ack.proof[0]) != 0) {
        hg_count(&to->context->counters.refused_header);
        HG_LOG_DEBUG("refused a HELLO_ACK of %zu bytes", out->used);
        return NULL;
    }
    memcpy(&ack, out->buf + hg_msg_payload_offset(out, out->flags), out->used);
    memcpy(hello.instance, rpc_class->instance, sizeof(hello.instance));
    memcpy(hello.share, to->exchange.share, sizeof(hello.share));
    proofs = (uint32_t) ((out->used - said) / sizeof(ack.proof[0]));
    proof = hg_hello_end(&to->exchange, &hello, &ack, proofs, &keys);
    /* Our own answer would come if somebody sent the HELLO back to us. */
    if (proof == proofs || (memcmp(ack.instance, hello.instance, sizeof(hello.instance)) == 0 &&
                            !handle->info.addr->is_self)) {
        HG_LOG_WRITE(hg_count_level(&to->context->counters.refused_key),
                     "refused an answer to HELLO: the auth_key of its sender is not ours");
        kit_auth_wipe(&keys, sizeof(keys));
        *ret_p = HG_PERMISSION;
        return NULL;
    }
    session = hg_session_new(le64toh(ack.session) + proof, &keys);
    kit_auth_wipe(&keys, sizeof(keys));
    *ret_p = session != NULL ? HG_SUCCESS : HG_NOMEM;
    return session;
}

/* Whether what waits asks again, under the other key: once in an attempt. */
static bool context_turn(struct hg_remote_context *to)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(to->context->hg_class);
    bool is_turned;

    (void) pthread_mutex_lock(&to->remote->lock);
    is_turned = rpc_class->secrets[1] != NULL && !to->has_turned && to->waiting.first != NULL;
    if (is_turned) {
        to->has_turned = true;
        to->key = 1 - to->key;
        to->is_calling = false;
    }
    (void) pthread_mutex_unlock(&to->remote->lock);
    return is_turned;
}

/* An attempt ended: what waits goes on, in another session if there is none. */
static void context_called(struct hg_remote_context *to, struct hg_session *session,
                           hg_return_t ret)
{
    struct hg_session *old = NULL;
    struct hg_handle *handle;

    (void) pthread_mutex_lock(&to->remote->lock);
    if (session != NULL) {
        old = to->session;
        to->session = session;
    }
    to->is_doubted = to->is_calling = to->has_turned = false;
    (void) pthread_mutex_unlock(&to->remote->lock);
    hg_session_unref(old);
    while ((handle = context_take_failed(to)) != NULL) {
        hg_handle_set_error(handle, ret);
        hg_handle_part_done(handle);
    }
    context_dispatch(to);
    hg_remote_unref(to->remote);
}

/* Take a forward that waits for an attempt that has failed. */
static struct hg_handle *context_take_failed(struct hg_remote_context *to)
{
    struct hg_handle *handle = NULL;

    (void) pthread_mutex_lock(&to->remote->lock);
    if (to->session == NULL && !to->is_calling)
        handle = to->waiting.first;
    if (handle != NULL)
        context_remove(to, handle);
    (void) pthread_mutex_unlock(&to->remote->lock);
    return handle;
}

/*
 * Start what waits, or ask for the session that it waits for. One thread at a time: what happens
 * meanwhile, also in here, it sees.
 */
static void context_dispatch(struct hg_remote_context *to)
{
    (void) pthread_mutex_lock(&to->remote->lock);
    while (!to->is_dispatching && to->waiting.first != NULL && !to->is_calling && !to->is_stalled) {
        struct hg_handle *handle = context_has_session(to) ? to->waiting.first : NULL;

        to->is_dispatching = true;
        if (handle != NULL) {
            context_remove(to, handle);
        } else {
            to->is_calling = true;
            atomic_fetch_add(&to->remote->ref, 1);
        }
        (void) pthread_mutex_unlock(&to->remote->lock);
        if (handle != NULL)
            hg_forward_start_deferred(handle);
        else
            context_call(to);
        (void) pthread_mutex_lock(&to->remote->lock);
        to->is_dispatching = false;
    }
    (void) pthread_mutex_unlock(&to->remote->lock);
}

/* Those of a context of ours are marked first: each is tried once, and may be stalled again. */
static void context_retry(struct hg_remote *remote, hg_context_t *context)
{
    struct hg_remote_context *to;

    (void) pthread_mutex_lock(&remote->lock);
    for (to = remote->contexts; to != NULL; to = to->next)
        if (to->context == context && to->is_stalled) {
            to->is_retried = true;
            to->is_stalled = false;
        }
    do {
        for (to = remote->contexts; to != NULL && !(to->context == context && to->is_retried);)
            to = to->next;
        if (to != NULL)
            to->is_retried = false;
        (void) pthread_mutex_unlock(&remote->lock);
        if (to != NULL)
            context_dispatch(to);
        (void) pthread_mutex_lock(&remote->lock);
    } while (to != NULL);
    (void) pthread_mutex_unlock(&remote->lock);
}

/* With a reference, which the next step drops. */
static struct hg_remote *remotes_first(hg_class_t *hg_class)
{
    struct hg_remotes *remotes = &hg_rpc_class(hg_class)->remotes;
    struct hg_remote *remote;

    (void) pthread_mutex_lock(&remotes->lock);
    remote = remotes->first;
    if (remote != NULL)
        atomic_fetch_add(&remote->ref, 1);
    (void) pthread_mutex_unlock(&remotes->lock);
    return remote;
}

static struct hg_remote *remotes_next(hg_class_t *hg_class, struct hg_remote *remote)
{
    struct hg_remotes *remotes = &hg_rpc_class(hg_class)->remotes;
    struct hg_remote *next;

    (void) pthread_mutex_lock(&remotes->lock);
    next = remote->next;
    if (next != NULL)
        atomic_fetch_add(&next->ref, 1);
    (void) pthread_mutex_unlock(&remotes->lock);
    hg_remote_unref(remote);
    return next;
}
