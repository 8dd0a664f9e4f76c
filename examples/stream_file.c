/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of any size in pieces: the origin reads a piece and sends its descriptor, the target
 * pulls and writes it. Each side needs memory for the pieces in flight only. stream_file --listen
 * na+sm COPY stream_file ADDRESS FILE */
#include "example.h"

#include <fcntl.h>
#include <unistd.h>

#define PIECE ((hg_size_t) 1 << 20)
#define DEPTH 4 /* pieces in flight */

MERCURY_GEN_PROC(write_in_t, ((uint64_t) (offset))((hg_bulk_t) (data)))
MERCURY_GEN_PROC(write_out_t, ((int32_t) (ret)))

/* A piece being pulled at the target. */
struct piece {
    hg_handle_t handle;
    write_in_t in;
    hg_bulk_t local;
};

static int file = -1; /* read at the origin, written at the target */

static hg_return_t end_piece(struct piece *piece, hg_return_t ret)
{
    write_out_t out = {(int32_t) ret};
    hg_handle_t handle = piece->handle;

    HG_Bulk_free(piece->local);
    HG_Free_input(handle, &piece->in);
    free(piece);
    return example_answer(handle, &out);
}

static hg_return_t pulled(const struct hg_cb_info *info)
{
    struct piece *piece = info->arg;
    hg_return_t ret = info->ret;
    hg_size_t size = info->info.bulk.size;
    void *memory;

    if (ret == HG_SUCCESS)
        ret = HG_Bulk_access(piece->local, 0, size, HG_BULK_READ_ONLY, 1, &memory, &size, NULL);
    if (ret == HG_SUCCESS && pwrite(file, memory, size, (off_t) piece->in.offset) != (ssize_t) size)
        ret = HG_IO_ERROR;
    return end_piece(piece, ret);
}

static hg_return_t write_request(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct piece *piece = calloc(1, sizeof(*piece));
    hg_return_t ret = piece != NULL ? HG_Get_input(handle, &piece->in) : HG_NOMEM;
    hg_size_t size;

    if (ret != HG_SUCCESS) {
        free(piece);
        return example_answer(handle, &(write_out_t){(int32_t) ret});
    }
    piece->handle = handle;
    size = HG_Bulk_get_size(piece->in.data);
    if (size == 0 || size > PIECE || piece->in.offset > INT64_MAX - size)
        return end_piece(piece, HG_INVALID_ARG);
    ret = HG_Bulk_create(info->hg_class, 1, NULL, &size, HG_BULK_WRITE_ONLY, &piece->local);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_transfer(info->context, pulled, piece, HG_BULK_PULL, info->addr,
                               piece->in.data, 0, piece->local, 0, size, HG_OP_ID_IGNORE);
    return ret == HG_SUCCESS ? ret : end_piece(piece, ret);
}

struct slot { /* a piece in flight at the origin */
    struct example_call call;
    hg_handle_t handle;
    hg_bulk_t bulk;
    unsigned char memory[PIECE];
};

/* Waits for the slot's piece in flight, if there is one. */
static void finish(const struct example *example, struct slot *slot)
{
    write_out_t out;

    if (slot->bulk == HG_BULK_NULL)
        return;
    while (!slot->call.done)
        example_progress(example->context);
    CHECK(slot->call.ret);
    CHECK(HG_Get_output(slot->handle, &out));
    CHECK((hg_return_t) out.ret);
    CHECK(HG_Free_output(slot->handle, &out));
    CHECK(HG_Bulk_free(slot->bulk));
    slot->bulk = HG_BULK_NULL;
}

static void send_file(const struct example *example, const char *address, hg_id_t id)
{
    static struct slot slots[DEPTH];
    write_in_t in = {0, HG_BULK_NULL};
    hg_addr_t target;
    ssize_t got = 1;

    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    for (int i = 0; i < DEPTH; i++)
        CHECK(HG_Create(example->context, target, id, &slots[i].handle));
    for (int i = 0; got > 0; i = (i + 1) % DEPTH) {
        void *memory = slots[i].memory;
        hg_size_t size;

        finish(example, &slots[i]);
        if ((got = read(file, memory, PIECE)) <= 0)
            break;
        size = (hg_size_t) got;
        CHECK(HG_Bulk_create(example->hg_class, 1, &memory, &size, HG_BULK_READ_ONLY, &in.data));
        slots[i].bulk = in.data;
        slots[i].call.done = false;
        CHECK(HG_Forward(slots[i].handle, example_called, &slots[i].call, &in));
        in.offset += size;
    }
    for (int i = 0; i < DEPTH; i++) {
        finish(example, &slots[i]);
        CHECK(HG_Destroy(slots[i].handle));
    }
    CHECK(HG_Addr_free(example->hg_class, target));
    CHECK(got == 0 ? HG_SUCCESS : HG_IO_ERROR);
    printf("%llu bytes sent\n", (unsigned long long) in.offset);
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id =
        MERCURY_REGISTER(example.hg_class, "write", write_in_t, write_out_t, write_request);

    if (argc > (is_target ? 3 : 2))
        file =
            is_target ? open(argv[3], O_WRONLY | O_CREAT | O_TRUNC, 0644) : open(argv[2], O_RDONLY);
    CHECK(file >= 0 ? HG_SUCCESS : HG_NOENTRY);
    if (is_target)
        example_serve(&example);
    else
        send_file(&example, argv[1], id);
    example_close(&example);
    return close(file) == 0 ? 0 : 1;
}
