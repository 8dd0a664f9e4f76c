/* SPDX-License-Identifier: BSD-3-Clause */
/* A pull in blocks, several of them in flight: the target works on one block while the next ones
 * are transferred, and needs memory for the blocks in flight only, whatever the origin's size is.
 * pipelined_bulk --listen na+sm bulk ADDRESS              the origin is that of bulk.c */
#include "example.h"

#include <mercury_ext.h>

#define BLOCK ((hg_size_t) 1 << 20)
#define DEPTH 4 /* blocks in flight */

MERCURY_GEN_PROC(sum_in_t, ((hg_bulk_t) (data)))
MERCURY_GEN_PROC(sum_out_t, ((int32_t) (ret))((uint64_t) (sum)))

struct block {
    struct pull *pull;
    hg_size_t place; /* offset in the local memory */
};

struct pull {
    hg_handle_t handle;
    sum_in_t in;
    hg_bulk_t local;
    unsigned char *memory; /* of DEPTH blocks */
    hg_size_t next;        /* offset of the next block in the origin's memory */
    unsigned int running;
    sum_out_t out;
    struct block blocks[DEPTH];
};

static uint64_t sum_of(const unsigned char *bytes, hg_size_t size)
{
    uint64_t sum = 0;

    for (hg_size_t i = 0; i < size; i++)
        sum += bytes[i];
    return sum;
}

static hg_return_t pulled(const struct hg_cb_info *info);

/* Starts the next block in a free place, unless an error occurred. */
static void pull_next(struct block *block)
{
    struct pull *pull = block->pull;
    const struct hg_info *info = HG_Get_info(pull->handle);
    hg_size_t left = HG_Bulk_get_size(pull->in.data) - pull->next;
    hg_size_t size = left < BLOCK ? left : BLOCK;
    hg_return_t ret;

    if (size == 0 || pull->out.ret != HG_SUCCESS)
        return;
    ret = HG_Bulk_transfer_deadline(info->context, pulled, block, HG_BULK_PULL, info->addr, 0,
                                    pull->in.data, pull->next, pull->local, block->place, size,
                                    30000, HG_OP_ID_IGNORE); /* milliseconds */
    if (ret == HG_SUCCESS) {
        pull->next += size;
        pull->running++;
    } else {
        pull->out.ret = (int32_t) ret;
    }
}

/* Responds once nothing is in flight; before that a block may still be written to. */
static void end_if_idle(struct pull *pull)
{
    if (pull->running > 0)
        return;
    HG_Bulk_free(pull->local);
    HG_Free_input(pull->handle, &pull->in);
    example_answer(pull->handle, &pull->out);
    free(pull);
}

static hg_return_t pulled(const struct hg_cb_info *info)
{
    struct block *block = info->arg;
    struct pull *pull = block->pull;

    pull->running--;
    if (info->ret == HG_SUCCESS)
        pull->out.sum += sum_of(pull->memory + block->place, info->info.bulk.size);
    else
        pull->out.ret = (int32_t) info->ret;
    pull_next(block);
    end_if_idle(pull);
    return HG_SUCCESS;
}

static hg_return_t sum(hg_handle_t handle)
{
    struct pull *pull = calloc(1, sizeof(*pull));
    hg_size_t size = DEPTH * BLOCK;
    sum_out_t out = {HG_NOMEM, 0};

    if (pull == NULL)
        return example_answer(handle, &out);
    pull->handle = handle;
    out.ret = (int32_t) HG_Get_input(handle, &pull->in);
    if (out.ret != HG_SUCCESS) {
        free(pull);
        return example_answer(handle, &out);
    }
    /* Without addresses the library allocates the memory. */
    pull->out.ret = (int32_t) HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, NULL, &size,
                                             HG_BULK_WRITE_ONLY, &pull->local);
    if (pull->out.ret == HG_SUCCESS)
        pull->out.ret = (int32_t) HG_Bulk_access(pull->local, 0, size, HG_BULK_READWRITE, 1,
                                                 (void **) &pull->memory, &size, NULL);
    for (unsigned int i = 0; i < DEPTH; i++) {
        pull->blocks[i] = (struct block){pull, i * BLOCK};
        pull_next(&pull->blocks[i]);
    }
    end_if_idle(pull);
    return HG_SUCCESS;
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id = MERCURY_REGISTER(example.hg_class, "sum", sum_in_t, sum_out_t, sum);

    if (is_target && id != 0)
        example_serve(&example);
    else
        fprintf(stderr, "the origin is bulk ADDRESS\n");
    example_close(&example);
    return is_target ? 0 : 1;
}
