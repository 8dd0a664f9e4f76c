/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets from processes of this node: the origin reads the target's memory by cross-memory attach.
 * The target's registry says what may be read. Its entry is read first, and again behind each piece
 * in the same system call, so memory that was deregistered meanwhile never counts as read. The
 * target copies a part of a large get at the same time, from the end, because two processors use
 * more of the memory's bandwidth than one.
 */

#include "ucx.h"

#include <string.h>
#include <sys/uio.h>

#define READ_PIECE  (UINT64_C(512) << 10)
#define READ_BUDGET (UINT64_C(1) << 20)  /* bytes in one poll */
#define READ_SHARED (UINT64_C(64) << 10) /* the target copies half of a get from this size on */

static uint64_t read_entry_address(const struct ucx_transfer *transfer);
static int32_t read_check(const struct ucx_transfer *transfer, uint64_t *base_p);
static void read_split(struct ucx_transfer *transfer);
static int32_t read_piece(struct ucx_transfer *transfer, uint64_t *moved_p);
static void read_advance(struct ucx_transfer *transfer, int32_t status);
static void read_end(struct ucx_transfer *transfer, int32_t status);

bool ucx_read_is_possible(const struct ucx_transfer *transfer)
{
    const struct kit_msg_rma *rma = transfer->rma;

    return transfer->link->registry != 0 && rma->is_put == 0 &&
           (uint32_t) rma->remote->region.id < UCX_REGISTRY &&
           ucx_regions_are_host(&rma->local->region, &rma->remote->region);
}

/* NA_PLUGIN_OPNOTSUPPORTED: the engine has to carry it out. */
int32_t ucx_read_start(struct ucx_transfer *transfer)
{
    struct na_plugin_class *na_class = transfer->na_class;
    int32_t ret = read_check(transfer, &transfer->remote_base);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    transfer->is_read = true;
    transfer->tail = transfer->rma->length;
    read_split(transfer);
    kit_list_append(&na_class->reads, &transfer->node);
    if (na_class->reads.next == &transfer->node)
        ucx_reads_progress(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* The engine's transfer of the target's part ended with `status`. */
void ucx_read_part_done(struct ucx_transfer *transfer, int32_t status)
{
    if (transfer->is_abandoned)
        read_end(transfer, transfer->status);
    else if (status != NA_PLUGIN_SUCCESS || transfer->is_unreadable ||
             transfer->head == transfer->tail)
        read_advance(transfer, status);
    else
        read_split(transfer);
}

/* Reads pieces of the gets in progress, in order, up to READ_BUDGET. */
void ucx_reads_progress(struct na_plugin_class *na_class)
{
    uint64_t budget = READ_BUDGET;

    while (!kit_list_empty(&na_class->reads) && budget != 0) {
        struct ucx_transfer *transfer =
            kit_container(na_class->reads.next, struct ucx_transfer, node);
        uint64_t moved = 0;
        int32_t status = read_piece(transfer, &moved);

        budget -= moved < budget ? moved : budget;
        if (status == NA_PLUGIN_OPNOTSUPPORTED) { /* the system refuses the access */
            transfer->is_unreadable = true;
            transfer->link->registry = 0;
            status = NA_PLUGIN_SUCCESS;
        } else if (status == NA_PLUGIN_SUCCESS && transfer->head != transfer->tail) {
            continue;
        }
        kit_list_remove(&transfer->node);
        read_advance(transfer, status);
    }
}

static uint64_t read_entry_address(const struct ucx_transfer *transfer)
{
    return transfer->link->registry +
           (uint32_t) transfer->rma->remote->region.id * sizeof(struct ucx_entry);
}

/* Checks key, rights and range against the owner's registry, and returns the address to read. */
static int32_t read_check(const struct ucx_transfer *transfer, uint64_t *base_p)
{
    const struct kit_msg_rma *rma = transfer->rma;
    struct ucx_entry entry;
    struct kit_key key;
    const struct iovec local = {&entry, sizeof(entry)};
    const struct iovec remote = kit_iovec(read_entry_address(transfer), sizeof(entry));
    uint64_t moved;
    int32_t ret = kit_attach_read(transfer->link->pid, &local, 1, &remote, 1, &moved);

    if (moved != sizeof(entry))
        return ret == NA_PLUGIN_SUCCESS || ret == NA_PLUGIN_FAULT ? NA_PLUGIN_HOSTUNREACH : ret;
    memcpy(&key, (const void *) &entry.key, sizeof(key));
    if (!kit_key_is_equal(&key, &rma->remote->region.key) || key.word[0] == 0 ||
        (entry.flags & NA_PLUGIN_MEM_READ) == 0)
        return NA_PLUGIN_PERMISSION;
    if (rma->remote_offset > entry.length || rma->length > entry.length - rma->remote_offset)
        return NA_PLUGIN_OVERFLOW;
    if (entry.mem_type != NA_PLUGIN_MEM_TYPE_HOST)
        return NA_PLUGIN_OPNOTSUPPORTED;
    *base_p = entry.base + rma->remote_offset;
    return NA_PLUGIN_SUCCESS;
}

/* Has the target copy the second half of the rest. If that fails, this side reads all of it. */
static void read_split(struct ucx_transfer *transfer)
{
    uint64_t half = (transfer->tail - transfer->head) / 2;

    if (half < READ_SHARED / 2 || transfer->link->is_attach_refused)
        return;
    if (kit_remote_start_part(&transfer->na_class->fabric, transfer->rma, transfer->tail - half,
                              half) == NA_PLUGIN_SUCCESS)
        transfer->tail -= half;
}

/*
 * The kernel fills the buffers in the order of the array, and a key is used once: if it is there
 * after the data were read, the region was registered while they were read.
 */
static int32_t read_piece(struct ucx_transfer *transfer, uint64_t *moved_p)
{
    const struct kit_msg_rma *rma = transfer->rma;
    uint64_t size = transfer->tail - transfer->head, ignored;
    struct kit_key key = {{0, 0}};
    struct iovec local[2], remote[2];
    uint64_t moved;
    int32_t ret;

    size = size < READ_PIECE ? size : READ_PIECE;
    if (size == 0)
        return NA_PLUGIN_SUCCESS;
    local[0] = kit_iovec(rma->local->region.base + rma->local_offset + transfer->head, size);
    local[1] = (struct iovec){&key, sizeof(key)};
    remote[0] = kit_iovec(transfer->remote_base + transfer->head, size);
    remote[1] = kit_iovec(read_entry_address(transfer), sizeof(key));
    ret = kit_attach_read(transfer->link->pid, local, 2, remote, 2, &moved);
    if (moved == size + sizeof(key) && kit_key_is_equal(&key, &rma->remote->region.key)) {
        transfer->head += size;
        *moved_p = size;
        return NA_PLUGIN_SUCCESS;
    }
    if (ret != NA_PLUGIN_SUCCESS && ret != NA_PLUGIN_FAULT)
        return ret;
    /* The read was short or the key has changed: find out whether the region was deregistered. */
    ret = read_check(transfer, &ignored);
    return ret == NA_PLUGIN_SUCCESS ? NA_PLUGIN_FAULT : ret;
}

/* This side reads no more: ends the get, or has the engine move the rest. */
static void read_advance(struct ucx_transfer *transfer, int32_t status)
{
    if (status != NA_PLUGIN_SUCCESS) {
        if (ucx_transfer_abandon(transfer, status, false))
            read_end(transfer, status);
        return;
    }
    if (transfer->rma->transfer != NULL)
        return;
    if (transfer->head != transfer->tail) {
        status = kit_remote_start_part(&transfer->na_class->fabric, transfer->rma, transfer->head,
                                       transfer->tail - transfer->head);
        transfer->tail = transfer->head;
    }
    if (transfer->rma->transfer == NULL)
        read_end(transfer, status);
}

static void read_end(struct ucx_transfer *transfer, int32_t status)
{
    kit_list_remove(&transfer->node);
    kit_msg_rma_done(&transfer->na_class->fabric, transfer->rma, status);
}
