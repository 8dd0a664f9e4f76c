/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets by the kit's engine, in which the target moves the bytes: within a node, and over
 * tcp, where libfabric aborts a connection, with everything in progress on it, if a key is not or
 * no longer registered. Memory is registered with libfabric only while a transfer needs it.
 *
 * Over tcp the target reads the origin's memory or writes to it. One fi_writemsg() writes the data
 * of a get and, behind them, a mark. A DONE that arrives without the mark came over another
 * connection than the data, which are lost then.
 *
 * Within a node the target copies by cross-memory attach. If the system does not permit that, the
 * data are sent in control records.
 */

#include "ofi.h"

#include <endian.h>
#include <string.h>

/* Bytes of a part: other messages, a cancel and a deregistration wait for one part at most. */
#define OFI_PART_SIZE (UINT32_C(4) << 20)

/* Tells the target where the exposed memory is. Little-endian. */
struct ofi_note {
    uint64_t key;
    uint64_t address;
    uint64_t mark_key; /* of a get: where the target writes `mark` behind the data */
    uint64_t mark_address;
    uint64_t mark;
};

_Static_assert(sizeof(struct ofi_note) <= KIT_RMA_NOTE_MAX, "the note travels in a request");

/* Private part of an exposure. */
struct ofi_exposure {
    struct fid_mr *mr;
    struct fid_mr *mark_mr;
    uint64_t mark;     /* written by the target */
    uint64_t expected; /* random, not 0 */
};

/* Private part of a move. */
struct ofi_move {
    struct ofi_request request;
    struct kit_link node; /* in na_plugin_class.moves */
    struct kit_rma_move *move;
    struct ofi_address *address;
    uint64_t mark;
};

static enum kit_rma_mover ofi_mover(void *owner, const struct kit_rma_request *request);
static int32_t ofi_process(void *owner, void *peer, uint32_t *pid_p);
static void ofi_attach_refused(void *owner, void *peer);
static int32_t ofi_expose(void *owner, struct kit_rma_exposure *exposure, void *note,
                          uint32_t *note_size);
static int32_t ofi_expose_open(struct na_plugin_class *na_class,
                               const struct kit_rma_exposure *exposure);
static int32_t ofi_expose_check(void *owner, struct kit_rma_exposure *exposure);
static void ofi_conceal(void *owner, struct kit_rma_exposure *exposure);
static int32_t ofi_move(void *owner, struct kit_rma_move *move);
static ssize_t ofi_move_issue(struct na_plugin_class *na_class, struct ofi_move *priv,
                              const struct ofi_note *note);
static uint64_t ofi_exposed_address(const struct na_plugin_class *na_class, const void *memory,
                                    uint64_t offset);

static const struct kit_rma_ops ofi_rma_ops = {
    .control_send = kit_remote_control_send,
    .mover = ofi_mover,
    .process = ofi_process,
    .attach_refused = ofi_attach_refused,
    .expose = ofi_expose,
    .expose_check = ofi_expose_check,
    .conceal = ofi_conceal,
    .move = ofi_move,
    .transfer_done = kit_remote_transfer_done,
};

/* Does nothing where transfers are the provider's own reads and writes (rma.c). */
int32_t ofi_target_open(struct na_plugin_class *na_class)
{
    const struct kit_rma_config config = {
        .ops = &ofi_rma_ops,
        .plugin = OFI_PLUGIN_NAME,
        .regions = &na_class->regions,
        .part_size = OFI_PART_SIZE,
        .transfer_private = sizeof(struct ofi_move) > sizeof(struct ofi_exposure)
                                ? sizeof(struct ofi_move)
                                : sizeof(struct ofi_exposure),
    };

    if (!na_class->is_target_driven && !na_class->uses_attach)
        return NA_PLUGIN_SUCCESS;
    return kit_remote_open(&na_class->base, &config);
}

void ofi_move_done(struct na_plugin_class *na_class, struct ofi_request *request, int32_t status)
{
    struct ofi_move *priv = (struct ofi_move *) (void *) request;
    struct ofi_address *address = priv->address;

    kit_list_remove(&priv->node);
    kit_rma_move_done(na_class->base.rma, priv->move, status);
    ofi_address_drop_request(na_class, address);
}

/* Whether moves are posted for an address and a region; NULL stands for any. */
bool ofi_target_is_busy(const struct na_plugin_class *na_class, const struct ofi_address *address,
                        const struct kit_region *region)
{
    for (const struct kit_link *link = na_class->moves.next; link != &na_class->moves;
         link = link->next) {
        const struct ofi_move *priv = kit_container(link, const struct ofi_move, node);
        uint64_t start = (uint64_t) (uintptr_t) priv->move->memory;

        if ((address == NULL || priv->address == address) &&
            (region == NULL || start - region->base < region->length))
            return true;
    }
    return false;
}

static enum kit_rma_mover ofi_mover(void *owner, const struct kit_rma_request *request)
{
    const struct na_plugin_class *na_class = owner;
    const struct ofi_peer *peer = ((const struct kit_peer *) request->peer)->priv;

    if (na_class->is_target_driven)
        return KIT_RMA_ONE_SIDED;
    return peer->is_unattachable ? KIT_RMA_INLINE : KIT_RMA_ATTACH;
}

static int32_t ofi_process(void *owner, void *peer, uint32_t *pid_p)
{
    const struct na_plugin_class *na_class = owner;
    uint64_t incarnation;

    return na_class->uses_attach && kit_peer_process(peer, pid_p, &incarnation)
               ? NA_PLUGIN_SUCCESS
               : NA_PLUGIN_OPNOTSUPPORTED;
}

static void ofi_attach_refused(void *owner, void *peer)
{
    const struct kit_peer *kit_peer = peer;
    struct ofi_peer *priv = kit_peer->priv;

    (void) owner;
    if (!priv->is_unattachable)
        OFI_LOG_WARNING("peer %s and this process may not touch each other's memory: data go in "
                        "messages, which takes long; see kernel.yama.ptrace_scope, or use na+sm",
                        kit_peer->name);
    priv->is_unattachable = true;
}

/* Memory is registered once for the whole transfer; each part has another mark. */
static int32_t ofi_expose(void *owner, struct kit_rma_exposure *exposure, void *note,
                          uint32_t *note_size)
{
    struct na_plugin_class *na_class = owner;
    struct ofi_exposure *priv = exposure->priv;
    struct ofi_note written;
    int32_t ret = priv->mr == NULL ? ofi_expose_open(na_class, exposure) : NA_PLUGIN_SUCCESS;

    priv->mark = priv->expected = 0;
    while (ret == NA_PLUGIN_SUCCESS && priv->expected == 0)
        ret = ofi_random_key(na_class, &priv->expected);
    if (ret != NA_PLUGIN_SUCCESS) {
        ofi_conceal(owner, exposure);
        return ret;
    }
    written = (struct ofi_note){
        .key = htole64(fi_mr_key(priv->mr)),
        .address = htole64(ofi_exposed_address(na_class, exposure->memory, exposure->offset)),
    };
    if (priv->mark_mr != NULL) {
        written.mark_key = htole64(fi_mr_key(priv->mark_mr));
        written.mark_address = htole64(ofi_exposed_address(na_class, &priv->mark, 0));
        written.mark = htole64(priv->expected);
    }
    memcpy(note, &written, sizeof(written));
    *note_size = sizeof(written);
    return NA_PLUGIN_SUCCESS;
}

static int32_t ofi_expose_open(struct na_plugin_class *na_class,
                               const struct kit_rma_exposure *exposure)
{
    struct ofi_exposure *priv = exposure->priv;
    int32_t ret = ofi_memory_register(na_class, exposure->memory, exposure->length,
                                      exposure->is_put != 0 ? FI_REMOTE_READ : FI_REMOTE_WRITE,
                                      NA_PLUGIN_MEM_TYPE_HOST, 0, &priv->mr);

    if (ret == NA_PLUGIN_SUCCESS && exposure->is_put == 0)
        ret = ofi_memory_register(na_class, &priv->mark, sizeof(priv->mark), FI_REMOTE_WRITE,
                                  NA_PLUGIN_MEM_TYPE_HOST, 0, &priv->mark_mr);
    return ret;
}

static int32_t ofi_expose_check(void *owner, struct kit_rma_exposure *exposure)
{
    const struct ofi_exposure *priv = exposure->priv;

    (void) owner;
    return exposure->is_put != 0 || priv->mark == htole64(priv->expected) ? NA_PLUGIN_SUCCESS
                                                                          : NA_PLUGIN_HOSTUNREACH;
}

static void ofi_conceal(void *owner, struct kit_rma_exposure *exposure)
{
    struct ofi_exposure *priv = exposure->priv;

    (void) owner;
    if (priv->mr != NULL)
        (void) fi_close(&priv->mr->fid);
    if (priv->mark_mr != NULL)
        (void) fi_close(&priv->mark_mr->fid);
    priv->mr = priv->mark_mr = NULL;
}

static int32_t ofi_move(void *owner, struct kit_rma_move *move)
{
    struct na_plugin_class *na_class = owner;
    struct kit_peer *peer = move->peer;
    struct ofi_move *priv = move->priv;
    struct ofi_note note;
    ssize_t ret;

    priv->address = ((struct ofi_peer *) peer->priv)->address;
    if (!na_class->is_target_driven || move->note_size != sizeof(note))
        return NA_PLUGIN_PROTOCOL_ERROR;
    if (na_class->endpoint == NULL || priv->address == NULL)
        return NA_PLUGIN_HOSTUNREACH;
    if (na_class->protocol.is_fenced && !ofi_address_fence(na_class, priv->address))
        return NA_PLUGIN_AGAIN;
    memcpy(&note, move->note, sizeof(note));
    priv->request.kind = OFI_REQUEST_MOVE;
    priv->move = move;
    priv->mark = note.mark;
    ret = ofi_move_issue(na_class, priv, &note);
    if (ret == -FI_EAGAIN)
        return NA_PLUGIN_AGAIN;
    if (ret != 0)
        return ofi_status((int) -ret);
    kit_list_append(&na_class->moves, &priv->node);
    priv->address->requests++;
    move->is_ordered = move->is_put == 0;
    return NA_PLUGIN_SUCCESS;
}

/* The data of a get and the mark are one write: a mark that arrived proves that the data did. */
static ssize_t ofi_move_issue(struct na_plugin_class *na_class, struct ofi_move *priv,
                              const struct ofi_note *note)
{
    const struct kit_rma_move *move = priv->move;
    const bool is_put = move->is_put != 0;
    struct iovec vectors[2] = {
        {move->memory, move->size},
        {&priv->mark, sizeof(priv->mark)},
    };
    struct fi_rma_iov remote[2] = {
        {le64toh(note->address), move->size, le64toh(note->key)},
        {le64toh(note->mark_address), sizeof(priv->mark), le64toh(note->mark_key)},
    };
    void *descriptors[2] = {NULL, NULL};
    struct fi_msg_rma message = {
        .msg_iov = vectors,
        .desc = descriptors,
        .iov_count = is_put ? 1 : 2,
        .addr = priv->address->fi_addr,
        .rma_iov = remote,
        .rma_iov_count = is_put ? 1 : 2,
        .context = &priv->request.context,
    };

    return is_put ? fi_readmsg(na_class->endpoint, &message, FI_COMPLETION)
                  : fi_writemsg(na_class->endpoint, &message, FI_COMPLETION);
}

static uint64_t ofi_exposed_address(const struct na_plugin_class *na_class, const void *memory,
                                    uint64_t offset)
{
    return (na_class->mr_mode & FI_MR_VIRT_ADDR) != 0 ? (uint64_t) (uintptr_t) memory + offset
                                                      : offset;
}
