/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's side of sessions. Equal addresses share a remote, which has a connection, and in it
 * a session, for each pair of a local context and a context of the peer. The first forward sends a
 * HELLO; forwards that start before the HELLO_ACK are queued in order.
 *
 * With two keys the HELLO uses the one that worked last. If the HELLO_ACK proves neither key, one
 * more HELLO uses the other key. A HELLO has one share only, so that an impostor gets one guess of
 * the key for each attempt.
 *
 * A response that says "no such session" or "wrong key" is not sealed, and anybody can forge it. It
 * fails a forward or an attempt to make a session, but never ends a session. The session is in
 * doubt then, and stays in use if no new one can be made.
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

/* The connection from a local context to a context of a peer. */
struct hg_remote_conn {
    struct hg_remote *remote;
    hg_context_t *context;
    uint8_t target_id; /* of the peer's context */

    /* Guarded by the remote's lock. */
    struct hg_remote_conn *next;
    struct hg_session *session; /* NULL: not made yet */
    bool is_doubted;            /* the next forward asks for a new session */
    bool is_opening;            /* a HELLO is being sent or waits for its HELLO_ACK */
    bool is_stalled;            /* the transport had no resources; the next poll retries */
    bool is_retried;            /* remote_retry() still has to retry it */
    bool is_dispatching;        /* a thread starts queued forwards */
    bool has_switched_key;      /* this attempt has used both keys */
    uint8_t key;                /* index in hg_rpc_class.secrets, of the next HELLO */
    struct hg_handle *hello;
    struct hg_waiting waiting;
    struct kit_auth_exchange
        exchange; /* of the HELLO; not guarded, used by one attempt at a time */
};

struct hg_remote {
    struct hg_addr *addr;
    uint8_t path;
    _Atomic uint32_t ref;   /* held by equal addresses, HELLOs, and threads that use it */
    struct hg_remote *next; /* guarded by hg_remotes.lock */
    pthread_mutex_t lock;   /* guards `conns`, and the members that hg_remote_conn names */
    struct hg_remote_conn *conns;
};

static struct hg_handle *remote_take_unneeded_hello(struct hg_remote *remote,
                                                    const hg_context_t *context);
static struct hg_remote *remote_find(struct hg_addr *addr, uint8_t path);
static struct hg_remote *remote_new(struct hg_addr *addr, uint8_t path);
static struct hg_remote_conn *conn_find(struct hg_remote *remote, const struct hg_handle *handle);
static void conn_free(struct hg_remote_conn *conn);
static bool conn_has_session(const struct hg_remote_conn *conn);
static void conn_expire_offer(struct hg_remote_conn *conn);
static void conn_add(struct hg_remote_conn *conn, struct hg_handle *handle);
static void conn_remove(struct hg_remote_conn *conn, struct hg_handle *handle);
static void conn_open(struct hg_remote_conn *conn);
static hg_return_t conn_send_hello(struct hg_remote_conn *conn);
static hg_return_t conn_hello_done(const struct hg_cb_info *info);
static struct hg_session *conn_session_new(struct hg_remote_conn *conn, struct hg_handle *handle,
                                           hg_return_t *ret_p);
static bool conn_switch_key(struct hg_remote_conn *conn);
static void conn_opened(struct hg_remote_conn *conn, struct hg_session *session, hg_return_t ret);
static void conn_dispatch(struct hg_remote_conn *conn);
static struct hg_handle *conn_take_failed(struct hg_remote_conn *conn);
static void remote_retry(struct hg_remote *remote, hg_context_t *context);
static struct hg_remote *remotes_next(hg_class_t *hg_class, struct hg_remote *remote);

bool UTIL_COLD hg_remote_enter(struct hg_handle *handle, size_t payload, uint8_t flags,
                               hg_return_t *ret_p)
{
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    hg_context_t *context = handle->info.context;
    struct hg_remote_conn *conn = NULL;
    bool is_waiting = false;

    *ret_p = HG_SUCCESS;
    if (remote != NULL) {
        (void) pthread_mutex_lock(&remote->lock);
        conn = conn_find(remote, handle);
        if (conn != NULL)
            conn_expire_offer(conn);
        is_waiting = conn != NULL && !conn_has_session(conn);
        if (is_waiting) {
            if (!handle->is_deferred) /* a forward that waited for its flow is deferred already */
                hg_waiting_defer(handle, payload, flags);
            conn_add(conn, handle);
            atomic_fetch_add(&remote->ref, 1);
        } else if (conn != NULL && handle->session != conn->session) {
            hg_session_unref(handle->session);
            handle->session = hg_session_ref(conn->session);
        }
        (void) pthread_mutex_unlock(&remote->lock);
    }
    if (conn == NULL) {
        HG_LOG_ERROR("cannot make a session: out of memory");
        *ret_p = HG_NOMEM;
        return true;
    }
    if (!is_waiting)
        return false;
    hg_context_wake(context); /* a sleeping thread has to see a new deadline */
    conn_dispatch(conn);
    hg_remote_unref(remote);
    return true;
}

bool UTIL_COLD hg_remote_leave(struct hg_handle *handle)
{
    hg_context_t *context = handle->info.context;
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    const uint32_t ret = atomic_load(&handle->ret);
    struct hg_remote_conn *conn = NULL;
    bool is_refused = handle->is_refused;

    handle->is_refused = false;
    if (is_refused && !atomic_load(&handle->is_canceled) && remote != NULL &&
        (ret == HG_SUCCESS || ret == HG_CANCELED)) {
        (void) pthread_mutex_lock(&remote->lock);
        conn = conn_find(remote, handle);
        if (conn != NULL) {
            atomic_store(&handle->ret, HG_SUCCESS);
            conn_add(conn, handle);
            conn->is_stalled = true;
        }
        (void) pthread_mutex_unlock(&remote->lock);
    }
    if (conn != NULL) {
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
    struct hg_remote_conn *conn = atomic_load(&handle->remote);
    bool was_waiting;

    if (conn == NULL)
        return false;
    (void) pthread_mutex_lock(&conn->remote->lock);
    was_waiting = atomic_load(&handle->remote) == conn;
    if (was_waiting)
        conn_remove(conn, handle);
    (void) pthread_mutex_unlock(&conn->remote->lock);
    if (!was_waiting)
        return false;
    hg_handle_set_error(handle, HG_CANCELED);
    hg_handle_part_done(handle);
    return true;
}

void UTIL_COLD hg_remote_doubt(struct hg_handle *handle)
{
    struct hg_remote *remote = remote_find(handle->info.addr, handle->path);
    struct hg_remote_conn *conn;

    if (remote == NULL)
        return;
    (void) pthread_mutex_lock(&remote->lock);
    conn = conn_find(remote, handle);
    if (conn != NULL && conn->session == handle->session)
        conn->is_doubted = true;
    (void) pthread_mutex_unlock(&remote->lock);
}

void hg_remotes_retry(hg_context_t *context)
{
    struct hg_remote *remote = NULL;

    if (!hg_context_refused_clear(context, &hg_rpc_context(context)->are_remotes_stalled))
        return;
    while ((remote = remotes_next(context->hg_class, remote)) != NULL)
        remote_retry(remote, context);
}

void hg_remotes_cancel(hg_context_t *context)
{
    struct hg_remote *remote = NULL;

    while ((remote = remotes_next(context->hg_class, remote)) != NULL) {
        struct hg_handle *hello;

        while ((hello = remote_take_unneeded_hello(remote, context)) != NULL) {
            (void) HG_Cancel(hello);
            hg_handle_unref(hello);
        }
    }
}

void hg_remotes_drop(hg_context_t *context)
{
    struct hg_remote *remote = NULL;

    while ((remote = remotes_next(context->hg_class, remote)) != NULL) {
        struct hg_remote_conn **link = &remote->conns;

        (void) pthread_mutex_lock(&remote->lock);
        while (*link != NULL) {
            struct hg_remote_conn *conn = *link;

            if (conn->context == context) {
                *link = conn->next;
                conn_free(conn);
            } else {
                link = &conn->next;
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
    while (remote->conns != NULL) {
        struct hg_remote_conn *conn = remote->conns;

        remote->conns = conn->next;
        conn_free(conn);
    }
    (void) HG_Addr_free(remote->addr->hg_class, remote->addr);
    (void) pthread_mutex_destroy(&remote->lock);
    free(remote);
}

/* Returns a referenced HELLO that no forward waits for, marked as cancelled; NULL: none is left. */
static struct hg_handle *remote_take_unneeded_hello(struct hg_remote *remote,
                                                    const hg_context_t *context)
{
    struct hg_handle *hello = NULL;

    (void) pthread_mutex_lock(&remote->lock);
    for (struct hg_remote_conn *conn = remote->conns; conn != NULL && hello == NULL;
         conn = conn->next)
        if (conn->context == context && conn->hello != NULL && conn->waiting.first == NULL &&
            !atomic_exchange(&conn->hello->is_canceled, true)) {
            hello = conn->hello;
            hg_handle_ref(hello);
        }
    (void) pthread_mutex_unlock(&remote->lock);
    return hello;
}

/* Returns the remote of an address, which holds a reference to it; NULL: out of memory. */
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

/* hg_remotes.lock is held. The remote's copy of the address holds no reference to the remote. */
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

/* Find or make the connection of a handle. The remote's lock is held. NULL: out of memory. */
static struct hg_remote_conn *conn_find(struct hg_remote *remote, const struct hg_handle *handle)
{
    struct hg_remote_conn *conn = remote->conns;

    while (conn != NULL &&
           (conn->context != handle->info.context || conn->target_id != handle->info.context_id))
        conn = conn->next;
    if (conn != NULL)
        return conn;
    conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->remote = remote;
    conn->context = handle->info.context;
    conn->target_id = handle->info.context_id;
    hg_waiting_init(&conn->waiting);
    conn->next = remote->conns;
    remote->conns = conn;
    return conn;
}

static void conn_free(struct hg_remote_conn *conn)
{
    hg_session_unref(conn->session);
    free(conn);
}

/* Returns true if there is a session that is not in doubt. The remote's lock is held. */
static bool conn_has_session(const struct hg_remote_conn *conn)
{
    return conn->session != NULL && !conn->is_doubted;
}

/*
 * The peer drops a session that was offered and never used, so an unused one expires here too. The
 * remote's lock is held.
 */
static void conn_expire_offer(struct hg_remote_conn *conn)
{
    if (conn->session != NULL &&
        atomic_load_explicit(&conn->session->sent, memory_order_relaxed) == 0 &&
        hg_clock_ns() - conn->session->made_ns > HG_OFFERS_NS / 2)
        conn->is_doubted = true;
}

/* The remote's lock is held here and in conn_remove(). */
static void conn_add(struct hg_remote_conn *conn, struct hg_handle *handle)
{
    if (conn->waiting.first == NULL && !conn->is_opening)
        conn->has_switched_key = false; /* all forwards of the last attempt were cancelled */
    atomic_store(&handle->remote, conn);
    hg_waiting_add(&conn->waiting, handle);
}

static void conn_remove(struct hg_remote_conn *conn, struct hg_handle *handle)
{
    hg_waiting_remove(&conn->waiting, handle);
    atomic_store(&handle->remote, NULL);
}

/* Send a HELLO. The caller has set is_opening and taken a reference to the remote for it. */
static void conn_open(struct hg_remote_conn *conn)
{
    hg_context_t *context = conn->context;
    const hg_return_t ret = conn_send_hello(conn);

    if (ret == HG_SUCCESS)
        return;
    kit_auth_wipe(&conn->exchange, sizeof(conn->exchange));
    if (ret != HG_AGAIN) {
        conn_opened(conn, NULL, ret);
        return;
    }
    (void) pthread_mutex_lock(&conn->remote->lock);
    conn->is_opening = false;
    conn->is_stalled = true;
    (void) pthread_mutex_unlock(&conn->remote->lock);
    hg_remote_unref(conn->remote);
    hg_context_refused_set(context, &hg_rpc_context(context)->are_remotes_stalled);
}

static hg_return_t conn_send_hello(struct hg_remote_conn *conn)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(conn->context->hg_class);
    struct hg_handle *handle;
    struct hg_hello hello;
    hg_return_t ret;

    handle = hg_handle_take(conn->context, (enum hg_path) conn->remote->path, conn->remote->addr, 0,
                            &ret);
    if (handle == NULL)
        return ret;
    handle->info.context_id = conn->target_id;
    handle->deadline_ms = 0; /* the forwards that wait have their own */
    kit_auth_exchange_begin(rpc_class->secrets[conn->key], &conn->exchange);
    memcpy(hello.instance, rpc_class->instance, sizeof(hello.instance));
    memcpy(hello.share, conn->exchange.share, sizeof(hello.share));
    memcpy(handle->in.buf + hg_msg_payload_offset(&handle->in, HG_CORE_HEADER_HELLO), &hello,
           sizeof(hello));
    (void) pthread_mutex_lock(&conn->remote->lock);
    conn->hello = handle;
    (void) pthread_mutex_unlock(&conn->remote->lock);
    ret = hg_forward_hello(handle, conn_hello_done, conn, sizeof(hello));
    if (ret == HG_SUCCESS)
        return HG_SUCCESS;
    (void) pthread_mutex_lock(&conn->remote->lock);
    conn->hello = NULL;
    (void) pthread_mutex_unlock(&conn->remote->lock);
    hg_handle_unref(handle);
    return ret;
}

static hg_return_t conn_hello_done(const struct hg_cb_info *info)
{
    struct hg_handle *handle = info->info.forward.handle;
    struct hg_remote_conn *conn = info->arg;
    const bool is_answered = info->ret == HG_SUCCESS;
    struct hg_session *session = NULL;
    hg_return_t ret = info->ret;

    /* A HELLO does not count as an RPC. */
    hg_count_own_add(&handle->req_count[handle->path], UINT64_MAX);
    if (is_answered) {
        hg_count_own_add(&handle->resp_count, UINT64_MAX);
        hg_count_own_add(&handle->done_count, UINT64_MAX);
        session = conn_session_new(conn, handle, &ret);
    }
    kit_auth_wipe(&conn->exchange, sizeof(conn->exchange));
    (void) pthread_mutex_lock(&conn->remote->lock);
    conn->hello = NULL;
    (void) pthread_mutex_unlock(&conn->remote->lock);
    hg_handle_unref(handle);
    if (is_answered && ret == HG_PERMISSION && conn_switch_key(conn)) {
        conn_dispatch(conn);
        hg_remote_unref(conn->remote);
    } else {
        conn_opened(conn, session, ret);
    }
    return HG_SUCCESS;
}

/* Check a HELLO_ACK and make the session; NULL: *ret_p is the error. */
static struct hg_session *conn_session_new(struct hg_remote_conn *conn, struct hg_handle *handle,
                                           hg_return_t *ret_p)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(conn->context->hg_class);
    const struct hg_msg *out = &handle->out;
    struct hg_session *session;
    struct kit_auth_keys keys;
    struct hg_hello_ack ack;
    struct hg_hello hello;
    uint32_t proofs, proof;

    memset(&ack, 0, sizeof(ack));
    *ret_p = HG_PROTOCOL_ERROR;
    if (out->used <= HG_HELLO_ACK_FIXED || out->used > sizeof(ack) ||
        (out->used - HG_HELLO_ACK_FIXED) % sizeof(ack.proof[0]) != 0) {
        hg_count(&conn->context->counters.refused_header);
        HG_LOG_DEBUG("refused a HELLO_ACK of %zu bytes", out->used);
        return NULL;
    }
    memcpy(&ack, out->buf + hg_msg_payload_offset(out, out->flags), out->used);
    memcpy(hello.instance, rpc_class->instance, sizeof(hello.instance));
    memcpy(hello.share, conn->exchange.share, sizeof(hello.share));
    proofs = (uint32_t) ((out->used - HG_HELLO_ACK_FIXED) / sizeof(ack.proof[0]));
    proof = hg_hello_end(&conn->exchange, &hello, &ack, proofs, &keys);
    /* A HELLO that an attacker reflects to this process gets a HELLO_ACK of its own class. */
    if (proof == proofs || (memcmp(ack.instance, hello.instance, sizeof(hello.instance)) == 0 &&
                            !handle->info.addr->is_self)) {
        HG_LOG_WRITE(hg_count_level(&conn->context->counters.refused_key),
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

/* Have the next HELLO use the other key. Returns false if there is none or it was used already. */
static bool conn_switch_key(struct hg_remote_conn *conn)
{
    const struct hg_rpc_class *rpc_class = hg_rpc_class(conn->context->hg_class);
    bool is_switched;

    (void) pthread_mutex_lock(&conn->remote->lock);
    is_switched =
        rpc_class->secrets[1] != NULL && !conn->has_switched_key && conn->waiting.first != NULL;
    if (is_switched) {
        conn->has_switched_key = true;
        conn->key = 1 - conn->key;
        conn->is_opening = false;
    }
    (void) pthread_mutex_unlock(&conn->remote->lock);
    return is_switched;
}

/*
 * An attempt ended: start the queued forwards, in the session in doubt if `session` is NULL and
 * there is one, or fail them. Drop the reference of the attempt.
 */
static void conn_opened(struct hg_remote_conn *conn, struct hg_session *session, hg_return_t ret)
{
    struct hg_session *old = NULL;
    struct hg_handle *handle;

    (void) pthread_mutex_lock(&conn->remote->lock);
    if (session != NULL) {
        old = conn->session;
        conn->session = session;
    }
    conn->is_doubted = conn->is_opening = conn->has_switched_key = false;
    (void) pthread_mutex_unlock(&conn->remote->lock);
    hg_session_unref(old);
    while ((handle = conn_take_failed(conn)) != NULL) {
        hg_handle_set_error(handle, ret);
        hg_handle_part_done(handle);
    }
    conn_dispatch(conn);
    hg_remote_unref(conn->remote);
}

/* Dequeue a forward that has to fail because there is no session; NULL: none. */
static struct hg_handle *conn_take_failed(struct hg_remote_conn *conn)
{
    struct hg_handle *handle = NULL;

    (void) pthread_mutex_lock(&conn->remote->lock);
    if (conn->session == NULL && !conn->is_opening)
        handle = conn->waiting.first;
    if (handle != NULL)
        conn_remove(conn, handle);
    (void) pthread_mutex_unlock(&conn->remote->lock);
    return handle;
}

/*
 * Start the queued forwards, or send a HELLO if there is no session. One thread dispatches at a
 * time; it also sees what other threads, or calls from within, queue meanwhile.
 */
static void conn_dispatch(struct hg_remote_conn *conn)
{
    (void) pthread_mutex_lock(&conn->remote->lock);
    while (!conn->is_dispatching && conn->waiting.first != NULL && !conn->is_opening &&
           !conn->is_stalled) {
        struct hg_handle *handle = conn_has_session(conn) ? conn->waiting.first : NULL;

        conn->is_dispatching = true;
        if (handle != NULL) {
            conn_remove(conn, handle);
        } else {
            conn->is_opening = true;
            atomic_fetch_add(&conn->remote->ref, 1);
        }
        (void) pthread_mutex_unlock(&conn->remote->lock);
        if (handle != NULL)
            hg_forward_start_deferred(handle);
        else
            conn_open(conn);
        (void) pthread_mutex_lock(&conn->remote->lock);
        conn->is_dispatching = false;
    }
    (void) pthread_mutex_unlock(&conn->remote->lock);
}

/* Mark the stalled connections of a context first, because each may stall again when retried. */
static void remote_retry(struct hg_remote *remote, hg_context_t *context)
{
    struct hg_remote_conn *conn;

    (void) pthread_mutex_lock(&remote->lock);
    for (conn = remote->conns; conn != NULL; conn = conn->next)
        if (conn->context == context && conn->is_stalled) {
            conn->is_retried = true;
            conn->is_stalled = false;
        }
    do {
        for (conn = remote->conns; conn != NULL && !(conn->context == context && conn->is_retried);)
            conn = conn->next;
        if (conn != NULL)
            conn->is_retried = false;
        (void) pthread_mutex_unlock(&remote->lock);
        if (conn != NULL)
            conn_dispatch(conn);
        (void) pthread_mutex_lock(&remote->lock);
    } while (conn != NULL);
    (void) pthread_mutex_unlock(&remote->lock);
}

/*
 * Iterate over the remotes of a class, starting with NULL: takes a reference to the remote that it
 * returns, and drops the reference to the one before.
 */
static struct hg_remote *remotes_next(hg_class_t *hg_class, struct hg_remote *remote)
{
    struct hg_remotes *remotes = &hg_rpc_class(hg_class)->remotes;
    struct hg_remote *next;

    (void) pthread_mutex_lock(&remotes->lock);
    next = remote != NULL ? remote->next : remotes->first;
    if (next != NULL)
        atomic_fetch_add(&next->ref, 1);
    (void) pthread_mutex_unlock(&remotes->lock);
    if (remote != NULL)
        hg_remote_unref(remote);
    return next;
}
