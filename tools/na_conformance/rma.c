/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory and transfers. */

#include "na_conformance/rma.h"

#include <string.h>

static void piece_open(struct conf_end *end, struct conf_block *piece, uint64_t size,
                       bool is_allocated);
static void piece_close(struct conf_end *end, struct conf_block *piece);
static void memory_create(struct conf_memory *memory, uint32_t flags);
static uint8_t *memory_at(const struct conf_memory *memory, uint64_t offset, uint64_t length,
                          uint64_t *run);
static uint8_t content(uint64_t place, uint64_t seed);
static int32_t transfer_step(struct conf_end *end, struct conf_op *op, bool put,
                             const struct conf_memory *local, uint64_t local_offset,
                             struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                             struct na_plugin_addr *addr);

/* The last piece has the remainder of the division. */
void conf_memory_open(struct conf_memory *memory, struct conf_end *end, uint64_t size,
                      uint32_t count, uint32_t flags)
{
    const bool is_allocated = (count & CONF_ALLOCATED) != 0;

    count &= ~CONF_ALLOCATED;
    memset(memory, 0, sizeof(*memory));
    memory->end = end;
    memory->size = size;
    memory->count = count == 0 ? 1 : count > CONF_PIECES_MAX ? CONF_PIECES_MAX : count;
    for (uint32_t i = 0; i < memory->count; i++)
        piece_open(end, &memory->pieces[i],
                   i + 1 < memory->count ? size / memory->count : size - size / memory->count * i,
                   is_allocated);
    memory_create(memory, flags);
    conf_memory_register(memory);
}

void conf_memory_register(struct conf_memory *memory)
{
    struct conf_end *end = memory->end;
    uint64_t entered;
    int32_t status = NA_PLUGIN_SUCCESS;

    if (conf_plugin.table.mem_register != NULL) {
        entered = conf_enter(CONF_CALL_MEM_REGISTER);
        status =
            conf_plugin.table.mem_register(end->na_class, memory->mem, NA_PLUGIN_MEM_TYPE_HOST, 0);
        conf_leave(CONF_CALL_MEM_REGISTER, entered);
    }
    conf_require(status == NA_PLUGIN_SUCCESS, "mem_register of %llu bytes failed: %s",
                 (unsigned long long) memory->size, conf_status_name(status));
    memory->registered = true;
}

void conf_memory_close(struct conf_memory *memory)
{
    if (memory->mem == NULL)
        return;
    conf_memory_deregister(memory);
    conf_memory_forget(memory->end, memory->mem);
    conf_memory_check(memory);
    for (uint32_t i = 0; i < memory->count; i++)
        piece_close(memory->end, &memory->pieces[i]);
    memory->mem = NULL;
}

void conf_memory_deregister(struct conf_memory *memory)
{
    uint64_t entered;
    int32_t status;

    if (!memory->registered)
        return;
    memory->registered = false;
    if (conf_plugin.table.mem_deregister == NULL)
        return;
    entered = conf_enter(CONF_CALL_MEM_REGISTER);
    status = conf_plugin.table.mem_deregister(memory->end->na_class, memory->mem);
    conf_leave(CONF_CALL_MEM_REGISTER, entered);
    conf_require(status == NA_PLUGIN_SUCCESS, "mem_deregister failed: %s",
                 conf_status_name(status));
}

void conf_memory_fill(struct conf_memory *memory, uint64_t offset, uint64_t length, uint64_t seed)
{
    const uint64_t end = offset + length;
    uint64_t run;

    for (; offset < end; offset += run) {
        uint8_t *data = memory_at(memory, offset, end - offset, &run);

        for (uint64_t i = 0; i < run; i++)
            data[i] = content(offset + i, seed);
    }
}

uint64_t conf_memory_differs(const struct conf_memory *memory, uint64_t offset, uint64_t length,
                             uint64_t seed)
{
    const uint64_t end = offset + length;
    uint64_t run;

    for (; offset < end; offset += run) {
        const uint8_t *data = memory_at(memory, offset, end - offset, &run);

        for (uint64_t i = 0; i < run; i++)
            if (data[i] != content(offset + i, seed))
                return offset + i;
    }
    return UINT64_MAX;
}

void conf_memory_check(const struct conf_memory *memory)
{
    for (uint32_t i = 0; i < memory->count; i++)
        if (memory->pieces[i].map != NULL)
            conf_block_check(&memory->pieces[i], "registered memory");
}

uint64_t conf_memory_serialize(struct conf_memory *memory, void *buf, uint64_t size)
{
    uint64_t entered = conf_enter(CONF_CALL_MEM_SERIALIZE), needed;
    int32_t status;

    needed = conf_plugin.table.mem_serialize_size(memory->end->na_class, memory->mem);
    conf_require(needed <= size, "a serialized handle takes %llu bytes",
                 (unsigned long long) needed);
    status = conf_plugin.table.mem_serialize(memory->end->na_class, memory->mem, buf, needed);
    conf_leave(CONF_CALL_MEM_SERIALIZE, entered);
    conf_require(status == NA_PLUGIN_SUCCESS, "mem_serialize failed: %s", conf_status_name(status));
    return needed;
}

struct na_plugin_mem *conf_memory_deserialize(struct conf_end *end, const void *buf, uint64_t size)
{
    uint64_t entered = conf_enter(CONF_CALL_MEM_DESERIALIZE);
    struct na_plugin_mem *mem = NULL;
    int32_t status = conf_plugin.table.mem_deserialize(end->na_class, buf, size, &mem);

    conf_leave(CONF_CALL_MEM_DESERIALIZE, entered);
    conf_require(status == NA_PLUGIN_SUCCESS && mem != NULL, "mem_deserialize failed: %s",
                 conf_status_name(status));
    return mem;
}

void conf_memory_forget(struct conf_end *end, struct na_plugin_mem *mem)
{
    uint64_t entered = conf_enter(CONF_CALL_MEM_DESTROY);

    conf_plugin.table.mem_destroy(end->na_class, mem);
    conf_leave(CONF_CALL_MEM_DESTROY, entered);
}

int32_t conf_transfer(struct conf_end *end, uint32_t id, struct conf_op *op, bool put,
                      const struct conf_memory *local, uint64_t local_offset,
                      struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                      struct na_plugin_addr *addr, uint32_t remote_id)
{
    const enum conf_call call = put ? CONF_CALL_PUT : CONF_CALL_GET;
    uint64_t entered;
    int32_t status;

    conf_op_begin(op, CONF_OP_RMA, NULL, 0);
    entered = conf_enter(call);
    status = (put ? conf_plugin.table.put : conf_plugin.table.get)(
        end->contexts[id], conf_op_private(op), local->mem, local_offset, remote, remote_offset,
        length, addr, remote_id);
    conf_leave(call, entered);
    conf_op_begun(op, status);
    return status;
}

uint64_t conf_transfer_most(const struct conf_end *end, uint64_t length)
{
    const uint64_t most = end->info.max_rma_size;

    return most != 0 && most < length ? most : length;
}

int32_t conf_transfer_wait(struct conf_end *end, bool put, const struct conf_memory *local,
                           uint64_t local_offset, struct na_plugin_mem *remote,
                           uint64_t remote_offset, uint64_t length, struct na_plugin_addr *addr)
{
    if (end->mover == NULL)
        end->mover = conf_op_new(end);
    for (uint64_t done = 0; done < length;) {
        const uint64_t now = conf_transfer_most(end, length - done);
        int32_t status = transfer_step(end, end->mover, put, local, local_offset + done, remote,
                                       remote_offset + done, now, addr);

        if (status != NA_PLUGIN_SUCCESS)
            return status;
        done += now;
    }
    return NA_PLUGIN_SUCCESS;
}

int32_t conf_memory_exchange(struct conf_end *end, struct na_plugin_addr *addr, const void *handle,
                             uint64_t handle_size, uint64_t length, bool put, uint64_t seed,
                             uint64_t *differs)
{
    struct na_plugin_mem *remote = conf_memory_deserialize(end, handle, handle_size);
    struct conf_memory local;
    int32_t status;

    conf_memory_open(&local, end, length, 1, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE);
    conf_memory_fill(&local, 0, length, put ? seed : seed + 1);
    status = conf_transfer_wait(end, put, &local, 0, remote, 0, length, addr);
    *differs = conf_memory_differs(&local, 0, length, seed);
    conf_memory_close(&local);
    conf_memory_forget(end, remote);
    return status;
}

/* A plugin may have no memory of that size. */
static void piece_open(struct conf_end *end, struct conf_block *piece, uint64_t size,
                       bool is_allocated)
{
    if (is_allocated && conf_plugin.alloc != NULL)
        piece->data = conf_plugin.alloc->mem_alloc(end->na_class, size);
    piece->size = size;
    if (piece->data == NULL)
        conf_block_map(piece, size);
}

static void piece_close(struct conf_end *end, struct conf_block *piece)
{
    if (piece->map != NULL) {
        conf_block_unmap(piece);
        return;
    }
    conf_require(conf_plugin.alloc->mem_free(end->na_class, piece->data) == NA_PLUGIN_SUCCESS,
                 "mem_free refuses memory of mem_alloc");
}

static void memory_create(struct conf_memory *memory, uint32_t flags)
{
    struct na_plugin_segment segments[CONF_PIECES_MAX];
    uint64_t entered;
    int32_t status;

    for (uint32_t i = 0; i < memory->count; i++)
        segments[i] = (struct na_plugin_segment){memory->pieces[i].data, memory->pieces[i].size};
    entered = conf_enter(CONF_CALL_MEM_CREATE);
    if (memory->count == 1)
        status = conf_plugin.table.mem_create(memory->end->na_class, segments[0].base,
                                              segments[0].length, flags, &memory->mem);
    else
        status = conf_plugin.segments->mem_create_segments(memory->end->na_class, segments,
                                                           memory->count, flags, &memory->mem);
    conf_leave(CONF_CALL_MEM_CREATE, entered);
    conf_require(status == NA_PLUGIN_SUCCESS && memory->mem != NULL,
                 "a memory handle of %llu bytes in %u pieces cannot be made: %s",
                 (unsigned long long) memory->size, memory->count, conf_status_name(status));
}

/* Returns the address of an offset, and how many of the `length` bytes there are in one piece. */
static uint8_t *memory_at(const struct conf_memory *memory, uint64_t offset, uint64_t length,
                          uint64_t *run)
{
    const uint64_t piece = memory->pieces[0].size;
    uint64_t index = piece != 0 ? offset / piece : memory->count - 1, left;

    if (index >= memory->count)
        index = memory->count - 1;
    offset -= index * piece;
    left = memory->pieces[index].size - offset;
    *run = left < length ? left : length;
    return memory->pieces[index].data + offset;
}

static uint8_t content(uint64_t place, uint64_t seed)
{
    return (uint8_t) ((seed + 1) * 29 + place * 7 + (place >> 8) * 13);
}

static int32_t transfer_step(struct conf_end *end, struct conf_op *op, bool put,
                             const struct conf_memory *local, uint64_t local_offset,
                             struct na_plugin_mem *remote, uint64_t remote_offset, uint64_t length,
                             struct na_plugin_addr *addr)
{
    const uint64_t until = conf_now_ms() + CONF_WAIT_MS;
    int32_t status;

    do {
        status = conf_transfer(end, 0, op, put, local, local_offset, remote, remote_offset, length,
                               addr, 0);
        if (status == NA_PLUGIN_AGAIN)
            conf_progress_ms(0);
    } while (status == NA_PLUGIN_AGAIN && conf_now_ms() < until);
    if (status != NA_PLUGIN_SUCCESS)
        return status;
    conf_wait(op, put ? "a put" : "a get");
    return op->status;
}
