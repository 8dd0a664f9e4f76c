/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets over connections, at their origin. The target carries them out: it looks at the
 * handle, then reads from our memory or writes to it, and answers. libfabric cuts a connection when
 * it meets a key that is not, or not any more, registered, and with it what others have in hand
 * there; and it goes on with memory whose key was withdrawn in the middle. Now each side's
 * libfabric is given keys only for as long as an operation needs them.
 *
 * A get's data and, behind them, a mark are one message of libfabric's: an answer that comes
 * without the mark came over another connection than the data, which are lost then.
 *
 * Between processes of one node that may not touch each other's memory all data are inline, and
 * many pieces under way.
 */

#include "carry.h"
#include "ofi.h"

#include <endian.h>
#include <string.h>

/* So long may somebody else's message, a cancel or a deregistration wait for a piece. */
#define OFI_CARRY_PIECE (UINT64_C(4) << 20)

/* Bytes of one transfer that are under way in records. */
#define OFI_COPY_WINDOW (512u * OFI_CARRY_INLINE)

static int32_t ofi_carry_own(struct na_plugin_class *na_class, const struct fabric_rma *rma);
static int32_t ofi_carry_open(struct na_plugin_class *na_class, struct ofi_rma *rma);
static void ofi_carry_close(struct ofi_rma *rma);
static int32_t ofi_carry_number(struct na_plugin_class *na_class, struct ofi_rma *rma);
static int32_t ofi_carry_ask(struct na_plugin_class *na_class, struct ofi_rma *rma);
static int32_t ofi_carry_send(struct na_plugin_class *na_class, const struct ofi_rma *rma,
                              struct ofi_carry_request *request, uint64_t at, uint64_t size);
static uint64_t ofi_carry_address(const struct na_plugin_class *na_class, const void *memory);
static void ofi_carry_answered(struct na_plugin_class *na_class, struct fabric_peer *peer,
                               const struct ofi_carry_answer *answer, const uint8_t *data,
                               uint64_t size);
static int32_t ofi_carry_check(const struct ofi_rma *rma, uint64_t piece, int32_t status,
                               const uint8_t *data, uint64_t size);
static void ofi_carry_next(struct na_plugin_class *na_class, struct ofi_rma *rma);
static void ofi_copy_ask(struct na_plugin_class *na_class, struct ofi_rma *rma);
static uint64_t ofi_copy_size(const struct ofi_rma *rma, uint64_t at);
static void ofi_copy_answered(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status,
                              const uint8_t *data, uint64_t size);
static void ofi_carry_end(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status);

int32_t ofi_carry_start(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    struct ofi_peer *peer = rma->rma->peer->priv;
    int32_t ret;

    rma->opened = NULL;
    rma->mark_mr = NULL;
    if (strcmp(rma->rma->peer->name, na_class->name) == 0) {
        ret = ofi_carry_own(na_class, rma->rma);
        if (ret == NA_PLUGIN_SUCCESS)
            fabric_rma_done(&na_class->base, rma->rma, ret);
        return ret;
    }
    ret = ofi_carry_number(na_class, rma);
    if (ret == NA_PLUGIN_SUCCESS && rma->rma->length > OFI_CARRY_INLINE)
        ret = ofi_carry_open(na_class, rma);
    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    kit_list_append(&na_class->carried, &rma->of_class);
    ret = ofi_carry_ask(na_class, rma);
    if (ret == NA_PLUGIN_SUCCESS)
        return ret;
    (void) ofi_attached_take(peer, rma->id);
    ofi_carry_close(rma);
    return ret;
}

/*
 * Within a node, where neither process may touch the other's memory: in the records themselves,
 * which arrive in order, and so do their answers. It ends by fabric_rma_done.
 */
void ofi_carry_copy(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    int32_t ret;

    rma->is_copied = true;
    rma->opened = NULL;
    rma->mark_mr = NULL;
    rma->status = NA_PLUGIN_SUCCESS;
    kit_list_append(&na_class->carried, &rma->of_class);
    ret = ofi_carry_number(na_class, rma);
    if (ret != NA_PLUGIN_SUCCESS) {
        ofi_carry_end(na_class, rma, ret);
        return;
    }
    ofi_attached_add(rma->rma->peer->priv, rma);
    ofi_copy_ask(na_class, rma);
}

/*
 * The target answers also when it is cancelled: until then it may touch our memory. When the peer
 * has failed nobody does.
 */
bool ofi_carry_abandon(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status)
{
    struct ofi_peer *peer = rma->rma->peer->priv;

    rma->is_abandoned = true;
    if (status == NA_PLUGIN_CANCELED && peer->address != NULL)
        return false;
    if (ofi_attached_take(peer, rma->id) != NULL)
        ofi_carry_end(na_class, rma, status);
    return true;
}

/* The connections are closed. */
void ofi_carry_abandon_all(struct na_plugin_class *na_class)
{
    while (!kit_list_empty(&na_class->carried)) {
        struct ofi_rma *rma = kit_container(na_class->carried.next, struct ofi_rma, of_class);

        (void) ofi_attached_take(rma->rma->peer->priv, rma->id);
        ofi_carry_end(na_class, rma,
                      rma->is_abandoned ? NA_PLUGIN_CANCELED : NA_PLUGIN_HOSTUNREACH);
    }
}

void ofi_carry_control(struct na_plugin_class *na_class, struct fabric_peer *peer, uint32_t type,
                       const void *data, uint64_t size)
{
    struct ofi_carry_answer answer;

    if (type == OFI_CARRY_REQUEST) {
        ofi_serve(na_class, peer, data, size);
    } else if (type == OFI_CARRY_ANSWER && size >= sizeof(answer)) {
        memcpy(&answer, data, sizeof(answer));
        ofi_carry_answered(na_class, peer, &answer, (const uint8_t *) data + sizeof(answer),
                           size - sizeof(answer));
    } else {
        OFI_LOG_DEBUG("dropped a record of type %u and %llu bytes from %s", type,
                      (unsigned long long) size, peer->name);
    }
}

/* Memory of this very endpoint. */
static int32_t ofi_carry_own(struct na_plugin_class *na_class, const struct fabric_rma *rma)
{
    uint8_t *local = ofi_mem_base(rma->local) + rma->local_offset, *remote;
    struct na_plugin_mem *mem;
    int32_t ret =
        ofi_mem_reach(na_class, na_class->name, rma->remote->region.id, &rma->remote->region.key,
                      rma->remote_offset, rma->length, rma->is_put != 0, &mem);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    remote = ofi_mem_base(mem) + rma->remote_offset;
    memmove(rma->is_put != 0 ? remote : local, rma->is_put != 0 ? local : remote, rma->length);
    return NA_PLUGIN_SUCCESS;
}

/* For the target, in the direction and the range of this transfer. */
static int32_t ofi_carry_open(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    const struct fabric_rma *wanted = rma->rma;
    const uint8_t *memory = ofi_mem_base(wanted->local) + wanted->local_offset;
    int32_t ret;

    ret = ofi_memory_register(na_class, memory, wanted->length,
                              wanted->is_put != 0 ? FI_REMOTE_READ : FI_REMOTE_WRITE,
                              NA_PLUGIN_MEM_TYPE_HOST, 0, &rma->opened);
    if (ret == NA_PLUGIN_SUCCESS && wanted->is_put == 0)
        ret = ofi_memory_register(na_class, &rma->mark, sizeof(rma->mark), FI_REMOTE_WRITE,
                                  NA_PLUGIN_MEM_TYPE_HOST, 0, &rma->mark_mr);
    if (ret != NA_PLUGIN_SUCCESS && rma->opened != NULL)
        (void) fi_close(&rma->opened->fid);
    return ret;
}

static void ofi_carry_close(struct ofi_rma *rma)
{
    kit_list_remove(&rma->of_class);
    if (rma->opened != NULL)
        (void) fi_close(&rma->opened->fid);
    if (rma->mark_mr != NULL)
        (void) fi_close(&rma->mark_mr->fid);
}

/* What nobody else can know: it is the mark, too. */
static int32_t ofi_carry_number(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    int32_t ret;

    do
        ret = ofi_random_key(na_class, &rma->id);
    while (ret == NA_PLUGIN_SUCCESS && rma->id == 0);
    return ret;
}

/* For the next piece. Not success: it is up to the caller to end it. */
static int32_t ofi_carry_ask(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    const struct fabric_rma *wanted = rma->rma;
    const uint8_t *memory = ofi_mem_base(wanted->local) + wanted->local_offset + rma->done;
    uint64_t size = wanted->length - rma->done;
    struct ofi_carry_request request = {0};

    size = size < OFI_CARRY_PIECE ? size : OFI_CARRY_PIECE;
    rma->mark = 0;
    rma->in_progress = size;
    if (rma->opened != NULL) {
        request.memory_key = htole64(fi_mr_key(rma->opened));
        request.memory_address = htole64(
            (na_class->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uint64_t) (uintptr_t) memory : rma->done);
    }
    if (rma->mark_mr != NULL) {
        request.mark_key = htole64(fi_mr_key(rma->mark_mr));
        request.mark_address = htole64(ofi_carry_address(na_class, &rma->mark));
    }
    ofi_attached_add(wanted->peer->priv, rma);
    return ofi_carry_send(na_class, rma, &request, rma->done, size);
}

/* The request for the piece at `at`, whose data go with it if it is a put and they are few. */
static int32_t ofi_carry_send(struct na_plugin_class *na_class, const struct ofi_rma *rma,
                              struct ofi_carry_request *request, uint64_t at, uint64_t size)
{
    const struct fabric_rma *wanted = rma->rma;
    const struct ofi_peer *peer = wanted->peer->priv;
    uint8_t record[sizeof(*request) + OFI_CARRY_INLINE];
    uint64_t inlined = wanted->is_put != 0 && size <= OFI_CARRY_INLINE ? size : 0;
    int32_t ret;

    request->id = htole64(rma->id);
    request->region = htole64(wanted->remote->region.id);
    request->key = wanted->remote->region.key;
    request->offset = htole64(wanted->remote_offset + at);
    request->length = htole64(size);
    request->is_put = htole32(wanted->is_put);
    memcpy(record, request, sizeof(*request));
    if (inlined != 0)
        memcpy(record + sizeof(*request), ofi_mem_base(wanted->local) + wanted->local_offset + at,
               inlined);
    ret = fabric_control_send(&na_class->base, wanted->peer, OFI_CARRY_REQUEST, record,
                              sizeof(*request) + inlined);
    /* No address: that was how the peer's end was found out. */
    return ret == NA_PLUGIN_SUCCESS && peer->address == NULL ? NA_PLUGIN_HOSTUNREACH : ret;
}

static uint64_t ofi_carry_address(const struct na_plugin_class *na_class, const void *memory)
{
    return (na_class->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uint64_t) (uintptr_t) memory : 0;
}

static void ofi_carry_answered(struct na_plugin_class *na_class, struct fabric_peer *peer,
                               const struct ofi_carry_answer *answer, const uint8_t *data,
                               uint64_t size)
{
    struct ofi_rma *rma = ofi_attached_take(peer->priv, le64toh(answer->id));
    int32_t status = (int32_t) le32toh((uint32_t) answer->status);

    if (rma == NULL)
        return;
    if (rma->is_copied) {
        ofi_copy_answered(na_class, rma, status, data, size);
        return;
    }
    status = ofi_carry_check(rma, rma->in_progress, status, data, size);
    if (status == NA_PLUGIN_SUCCESS)
        rma->done += rma->in_progress;
    rma->in_progress = 0;
    if (status == NA_PLUGIN_SUCCESS && rma->done != rma->rma->length && !rma->is_abandoned)
        ofi_carry_next(na_class, rma);
    else
        ofi_carry_end(na_class, rma,
                      rma->is_abandoned && rma->done != rma->rma->length ? NA_PLUGIN_CANCELED
                                                                         : status);
}

/* For as many pieces as may be under way. It may be over afterwards. */
static void ofi_copy_ask(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    struct ofi_peer *peer = rma->rma->peer->priv;
    const uint64_t id = rma->id;

    while (rma->in_progress < OFI_COPY_WINDOW && rma->done + rma->in_progress < rma->rma->length) {
        const uint64_t at = rma->done + rma->in_progress, size = ofi_copy_size(rma, at);
        struct ofi_carry_request request = {0};
        int32_t ret;

        rma->in_progress += size; /* the answer may come inside of the call */
        ret = ofi_carry_send(na_class, rma, &request, at, size);
        if (ret == NA_PLUGIN_SUCCESS && ofi_attached_find(peer, id) != NULL)
            continue;
        if (ofi_attached_take(peer, id) != NULL)
            ofi_carry_end(na_class, rma, ret);
        return;
    }
}

/* Of the piece there. */
static uint64_t ofi_copy_size(const struct ofi_rma *rma, uint64_t at)
{
    uint64_t left = rma->rma->length - at;

    return left < OFI_CARRY_INLINE ? left : OFI_CARRY_INLINE;
}

/* That of the first piece that is under way. When one fails the others are waited for. */
static void ofi_copy_answered(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status,
                              const uint8_t *data, uint64_t size)
{
    const struct fabric_rma *wanted = rma->rma;
    const uint64_t piece = ofi_copy_size(rma, rma->done);

    status = ofi_carry_check(rma, piece, status, data, size);
    if (rma->status == NA_PLUGIN_SUCCESS)
        rma->status = status;
    rma->done += piece;
    rma->in_progress -= piece;
    if (rma->is_abandoned && rma->status == NA_PLUGIN_SUCCESS && rma->done != wanted->length)
        rma->status = NA_PLUGIN_CANCELED;
    if (rma->in_progress == 0 &&
        (rma->status != NA_PLUGIN_SUCCESS || rma->done == wanted->length)) {
        ofi_carry_end(na_class, rma, rma->status);
        return;
    }
    ofi_attached_add(wanted->peer->priv, rma);
    if (rma->status == NA_PLUGIN_SUCCESS)
        ofi_copy_ask(na_class, rma);
}

/* What an answer to the request for a piece means. Inline data are taken. */
static int32_t ofi_carry_check(const struct ofi_rma *rma, uint64_t piece, int32_t status,
                               const uint8_t *data, uint64_t size)
{
    const struct fabric_rma *wanted = rma->rma;
    bool is_inline = wanted->is_put == 0 && piece <= OFI_CARRY_INLINE;

    if (status < NA_PLUGIN_SUCCESS || status > NA_PLUGIN_HOSTFIREWALL)
        return NA_PLUGIN_PROTOCOL_ERROR;
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    if (size != (is_inline ? piece : 0))
        return NA_PLUGIN_PROTOCOL_ERROR;
    if (is_inline)
        memcpy(ofi_mem_base(wanted->local) + wanted->local_offset + rma->done, data, size);
    else if (wanted->is_put == 0 && rma->mark != rma->id)
        return NA_PLUGIN_HOSTUNREACH;
    return NA_PLUGIN_SUCCESS;
}

static void ofi_carry_next(struct na_plugin_class *na_class, struct ofi_rma *rma)
{
    struct ofi_peer *peer = rma->rma->peer->priv;
    int32_t ret = ofi_carry_number(na_class, rma);
    uint64_t id = rma->id;

    if (ret != NA_PLUGIN_SUCCESS) {
        ofi_carry_end(na_class, rma, ret);
        return;
    }
    ret = ofi_carry_ask(na_class, rma);
    /* When it is not in the list it ended with its peer. */
    if (ret != NA_PLUGIN_SUCCESS && ofi_attached_take(peer, id) != NULL)
        ofi_carry_end(na_class, rma, ret);
}

static void ofi_carry_end(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status)
{
    ofi_carry_close(rma);
    fabric_rma_done(&na_class->base, rma->rma, status);
}
