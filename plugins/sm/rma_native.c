/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-memory attach: the kernel copies between two address spaces, the target does nothing.
 * Reading the peer's cookie shows whether attach works. The cookie is read again with every piece,
 * so that a process with the pid of a dead peer is never mistaken for it. The peer's table of
 * registrations is checked before and after every piece; a put also announces itself in the peer's
 * segment (writers.c), and the peer waits for it before it reuses the memory.
 */

#include "sm.h"

#include <errno.h>
#include <string.h>

#define SM_VECTORS 64u

static bool sm_native_probe(struct na_plugin_addr *peer);
static int32_t sm_native_piece(struct sm_op *op);
static int32_t sm_cookie_check(const struct na_plugin_addr *peer);
static int32_t sm_native_get(struct sm_op *op, const struct iovec *local, uint32_t local_count,
                             struct iovec *remote, uint32_t remote_count, uint64_t length,
                             uint64_t *done_p);
static int32_t sm_native_put(const struct sm_op *op, const struct iovec *local,
                             uint32_t local_count, const struct iovec *remote,
                             uint32_t remote_count, uint64_t *done_p);
static int32_t sm_native_status(const struct sm_op *op, int32_t status);

bool sm_native_available(struct na_plugin_addr *peer)
{
    uint32_t mode = sm_load(&peer->rma);

    if (kit_likely(mode != SM_RMA_UNKNOWN))
        return mode == SM_RMA_NATIVE;
    return sm_peer_mapped(peer) && sm_native_probe(peer);
}

/* Logs one line for each peer: the way that was chosen, and why it is not the faster one. */
static bool sm_native_probe(struct na_plugin_addr *peer)
{
    const char *reason = NULL;
    uint32_t unknown = SM_RMA_UNKNOWN;

    if (peer->na_class->force_copy)
        reason = "option rma or AMALGAM_SM_RMA says so";
    else if (!peer->same_pid_namespace)
        reason = "it is in another PID namespace";
    else if (sm_cookie_check(peer) != NA_PLUGIN_SUCCESS)
        reason = errno != 0 ? strerror(errno) : "another process is at its number";
    if (!atomic_compare_exchange_strong_explicit(&peer->rma, &unknown,
                                                 reason == NULL ? SM_RMA_NATIVE : SM_RMA_COPY,
                                                 memory_order_relaxed, memory_order_relaxed))
        return unknown == SM_RMA_NATIVE; /* another thread has probed it */
    if (reason == NULL)
        SM_LOG_INFO("transfers with %s: cross-memory attach", peer->name);
    else
        SM_LOG_INFO("transfers with %s: copied through shared memory (no cross-memory attach: %s)",
                    peer->name, reason);
    return reason == NULL;
}

/*
 * Copies the next piece, by attach or from or to a mapped pool. True when the transfer is finished,
 * with its status. NA_PLUGIN_AGAIN: the system refuses attach, or only the peer can check the
 * registration, so the transfer must be copied through the rings.
 */
bool sm_native_step(struct sm_op *op, int32_t *status_p)
{
    _Atomic uint64_t *mark = NULL;
    int32_t ret = NA_PLUGIN_SUCCESS;

    if (op->is_put)
        ret = sm_writer_enter(op->peer, sm_registration_digest(op->peer, op->remote), &mark);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_registration_check(op->peer, op->remote);
    if (ret == NA_PLUGIN_SUCCESS && op->is_shared)
        sm_shared_piece(op);
    else if (ret == NA_PLUGIN_SUCCESS)
        ret = sm_native_piece(op);
    if (mark != NULL)
        sm_writer_leave(mark);
    if (ret == NA_PLUGIN_SUCCESS) {
        /* Memory that was deregistered meanwhile may have been reused while it was copied. */
        atomic_thread_fence(memory_order_acquire);
        ret = sm_registration_check(op->peer, op->remote);
    }
    *status_p = ret;
    if (op->is_shared && ret == NA_PLUGIN_SUCCESS && op->used == op->size)
        sm_add(&op->context->transfers_shared, 1);
    return ret != NA_PLUGIN_SUCCESS || op->used == op->size;
}

static int32_t sm_native_piece(struct sm_op *op)
{
    struct iovec local[SM_VECTORS + 1], remote[SM_VECTORS + 1];
    uint64_t length = op->size - op->used;
    uint32_t local_count, remote_count;
    struct sm_cursor cursor;
    uint64_t done = 0, remote_length;
    int32_t ret;

    if (length > SM_RMA_CHUNK)
        length = SM_RMA_CHUNK;
    sm_cursor_seek(&cursor, op->remote, op->remote_offset + op->used);
    remote_count = sm_cursor_iovecs(&cursor, length, remote, SM_VECTORS, &remote_length);
    sm_cursor_seek(&cursor, op->local, op->local_offset + op->used);
    local_count = sm_cursor_iovecs(&cursor, remote_length, local, SM_VECTORS, &length);
    if (length < remote_length) {
        sm_cursor_seek(&cursor, op->remote, op->remote_offset + op->used);
        remote_count = sm_cursor_iovecs(&cursor, length, remote, SM_VECTORS, &remote_length);
    }

    if (!op->is_put)
        ret = sm_native_get(op, local, local_count, remote, remote_count, length, &done);
    else
        ret = sm_native_put(op, local, local_count, remote, remote_count, &done);
    op->used += done;
    return ret;
}

static int32_t sm_cookie_check(const struct na_plugin_addr *peer)
{
    uint64_t cookie = 0;
    const struct iovec local = {&cookie, sizeof(cookie)};
    const struct iovec remote = kit_iovec(peer->header.cookie_address, sizeof(cookie));
    uint64_t moved;
    int32_t ret;

    errno = 0;
    ret = kit_attach_read(peer->header.pid, &local, 1, &remote, 1, &moved);
    if (moved != sizeof(cookie))
        return ret == NA_PLUGIN_HOSTUNREACH ? ret : NA_PLUGIN_ACCESS;
    return cookie == peer->header.cookie ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH;
}

/* The cookie is read last in the same call: if it is right, the bytes before it are, too. */
static int32_t sm_native_get(struct sm_op *op, const struct iovec *local, uint32_t local_count,
                             struct iovec *remote, uint32_t remote_count, uint64_t length,
                             uint64_t *done_p)
{
    struct iovec mine[SM_VECTORS + 1];
    uint64_t cookie = 0, moved;
    int32_t ret;

    for (uint32_t i = 0; i < local_count; i++)
        mine[i] = local[i];
    mine[local_count] = (struct iovec){&cookie, sizeof(cookie)};
    remote[remote_count] = kit_iovec(op->peer->header.cookie_address, sizeof(cookie));
    ret = kit_attach_read(op->peer->header.pid, mine, local_count + 1, remote, remote_count + 1,
                          &moved);
    if (ret != NA_PLUGIN_SUCCESS)
        return sm_native_status(op, ret);
    *done_p = moved < length ? moved : length;
    if (moved == length + sizeof(cookie))
        return cookie == op->peer->header.cookie ? NA_PLUGIN_SUCCESS : NA_PLUGIN_HOSTUNREACH;
    return sm_cookie_check(op->peer); /* the next piece reports what stopped this one */
}

static int32_t sm_native_put(const struct sm_op *op, const struct iovec *local,
                             uint32_t local_count, const struct iovec *remote,
                             uint32_t remote_count, uint64_t *done_p)
{
    int32_t ret = sm_cookie_check(op->peer);

    if (ret == NA_PLUGIN_ACCESS)
        return sm_native_status(op, NA_PLUGIN_OPNOTSUPPORTED);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_attach_write(op->peer->header.pid, local, local_count, remote, remote_count,
                               done_p);
    return ret == NA_PLUGIN_SUCCESS ? ret : sm_native_status(op, ret);
}

/* Returns the status of a failed piece. NA_PLUGIN_AGAIN: the peer's transfers are copied then. */
static int32_t sm_native_status(const struct sm_op *op, int32_t status)
{
    if (status == NA_PLUGIN_FAULT)
        SM_LOG_ERROR("a transfer of %llu bytes with %s touches memory that is not mapped",
                     (unsigned long long) op->size, op->peer->name);
    if (status != NA_PLUGIN_OPNOTSUPPORTED)
        return status;
    if (atomic_exchange_explicit(&op->peer->rma, SM_RMA_COPY, memory_order_relaxed) != SM_RMA_COPY)
        SM_LOG_INFO("transfers with %s: from now on copied through shared memory (no cross-memory "
                    "attach any more)",
                    op->peer->name);
    return NA_PLUGIN_AGAIN;
}
