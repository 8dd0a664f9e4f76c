/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk data: the origin describes its memory, the descriptor travels as an argument, and the target
 * pulls the bytes without a copy in between.
 *     bulk --listen na+sm
 *     bulk ADDRESS              sends 16 MiB, prints their sum
 */
#include "example.h"

#define SIZE           ((hg_size_t) 16 << 20)
#define SIZE_MAX_TAKEN ((hg_size_t) 64 << 20) /* what a peer may make this target allocate */

MERCURY_GEN_PROC(sum_in_t, ((hg_bulk_t) (data)))
MERCURY_GEN_PROC(sum_out_t, ((int32_t) (ret))((uint64_t) (sum)))

/* A pull in progress. The input holds the origin's descriptor, so it is freed after the pull. */
struct pull {
    hg_handle_t handle;
    sum_in_t in;
    hg_bulk_t local;
};

static uint64_t sum_of(const unsigned char *bytes, hg_size_t size)
{
    uint64_t sum = 0;

    for (hg_size_t i = 0; i < size; i++)
        sum += bytes[i];
    return sum;
}

static hg_return_t pulled(const struct hg_cb_info *info)
{
    struct pull *pull = info->arg;
    sum_out_t out = {(int32_t) info->ret, 0};
    void *memory;
    hg_size_t size;

    if (info->ret == HG_SUCCESS &&
        HG_Bulk_access(pull->local, 0, HG_Bulk_get_size(pull->local), HG_BULK_READ_ONLY, 1, &memory,
                       &size, NULL) == HG_SUCCESS)
        out.sum = sum_of(memory, size);
    HG_Bulk_free(pull->local);
    HG_Free_input(pull->handle, &pull->in);
    example_answer(pull->handle, &out);
    free(pull);
    return HG_SUCCESS;
}

/* Starts the pull. On an error the request is answered with the returned code. */
static hg_return_t start(struct pull *pull)
{
    const struct hg_info *info = HG_Get_info(pull->handle);
    hg_size_t size = HG_Bulk_get_size(pull->in.data);
    hg_return_t ret;

    if (size == 0 || size > SIZE_MAX_TAKEN)
        return HG_MSGSIZE;
    ret = HG_Bulk_create(info->hg_class, 1, NULL, &size, HG_BULK_WRITE_ONLY, &pull->local);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_transfer(info->context, pulled, pull, HG_BULK_PULL, info->addr, pull->in.data, 0,
                           pull->local, 0, size, HG_OP_ID_IGNORE);
    if (ret != HG_SUCCESS)
        HG_Bulk_free(pull->local);
    return ret;
}

static hg_return_t sum(hg_handle_t handle)
{
    struct pull *pull = calloc(1, sizeof(*pull));
    sum_out_t out = {HG_NOMEM, 0};

    if (pull != NULL) {
        pull->handle = handle;
        out.ret = (int32_t) HG_Get_input(handle, &pull->in);
        if (out.ret == HG_SUCCESS) {
            out.ret = (int32_t) start(pull);
            if (out.ret == HG_SUCCESS)
                return HG_SUCCESS; /* pulled() goes on */
            HG_Free_input(handle, &pull->in);
        }
        free(pull);
    }
    return example_answer(handle, &out);
}

static void send_memory(struct example *example, const char *address, hg_id_t id)
{
    hg_size_t size = SIZE;
    unsigned char *memory = malloc(size);
    void *segment = memory;
    sum_in_t in;
    sum_out_t out;
    hg_addr_t target;
    hg_handle_t handle;

    if (memory == NULL)
        CHECK(HG_NOMEM);
    for (hg_size_t i = 0; i < size; i++)
        memory[i] = (unsigned char) (i * 7);
    CHECK(HG_Bulk_create(example->hg_class, 1, &segment, &size, HG_BULK_READ_ONLY, &in.data));
    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    CHECK(HG_Create(example->context, target, id, &handle));
    CHECK(example_call(example->context, handle, &in));
    CHECK(HG_Get_output(handle, &out));
    CHECK((hg_return_t) out.ret);
    printf("%llu bytes, sum %s\n", (unsigned long long) size,
           out.sum == sum_of(memory, size) ? "correct" : "WRONG");
    CHECK(HG_Free_output(handle, &out));
    CHECK(HG_Destroy(handle));
    CHECK(HG_Addr_free(example->hg_class, target));
    CHECK(HG_Bulk_free(in.data)); /* afterwards no peer reaches the memory */
    free(memory);
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id = MERCURY_REGISTER(example.hg_class, "sum", sum_in_t, sum_out_t, sum);

    if (is_target)
        example_serve(&example);
    else
        send_memory(&example, argv[1], id);
    example_close(&example);
    return 0;
}
