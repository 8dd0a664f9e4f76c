/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of types without an hg_proc_<type>() in the library: one is hand-written for a double
 * and for an array of variable length, and generated for a nested structure. types --listen na+sm
 * types ADDRESS [COUNT]     sends so many numbers, prints their mean and range */
#include "example.h"

/* A double is encoded as an integer of its size, which takes care of the byte order. */
static inline hg_return_t hg_proc_double(hg_proc_t proc, void *data)
{
    return hg_proc_uint64_t(proc, data);
}

typedef struct {
    uint32_t count;
    double *values;
} samples_t;

/* Encodes, decodes, and frees what decoding allocated; if decoding fails it frees that itself.
 * The count comes from a peer, so it is checked against the size of the message first. */
static hg_return_t hg_proc_samples_t(hg_proc_t proc, void *data)
{
    samples_t *samples = data;
    hg_proc_op_t op = hg_proc_get_op(proc);
    hg_return_t ret;

    if (op == HG_FREE) {
        free(samples->values);
        return HG_SUCCESS;
    }
    ret = hg_proc_uint32_t(proc, &samples->count);
    if (ret != HG_SUCCESS)
        return ret;
    if (op == HG_DECODE) {
        if (samples->count > hg_proc_get_size_left(proc) / sizeof(double))
            return HG_OVERFLOW;
        samples->values = calloc((size_t) samples->count + 1, sizeof(double));
        if (samples->values == NULL)
            return HG_NOMEM;
    }
    for (uint32_t i = 0; i < samples->count && ret == HG_SUCCESS; i++)
        ret = hg_proc_double(proc, &samples->values[i]);
    if (ret != HG_SUCCESS && op == HG_DECODE)
        free(samples->values);
    return ret;
}

MERCURY_GEN_PROC(range_t, ((double) (low))((double) (high)))
MERCURY_GEN_PROC(describe_in_t, ((samples_t) (samples)))
MERCURY_GEN_PROC(describe_out_t, ((int32_t) (ret))((double) (mean))((range_t) (range)))

static hg_return_t describe(hg_handle_t handle)
{
    describe_in_t in;
    describe_out_t out = {0, 0.0, {0.0, 0.0}};

    out.ret = (int32_t) HG_Get_input(handle, &in);
    if (out.ret == HG_SUCCESS) {
        for (uint32_t i = 0; i < in.samples.count; i++) {
            double value = in.samples.values[i];

            out.mean += value / in.samples.count;
            out.range.low = i == 0 || value < out.range.low ? value : out.range.low;
            out.range.high = i == 0 || value > out.range.high ? value : out.range.high;
        }
        HG_Free_input(handle, &in);
    }
    return example_answer(handle, &out);
}

static void send_samples(const struct example *example, const char *address, hg_id_t id,
                         uint32_t count)
{
    describe_in_t in = {{count, calloc((size_t) count + 1, sizeof(double))}};
    describe_out_t out;
    hg_addr_t target;
    hg_handle_t handle;

    if (in.samples.values == NULL)
        CHECK(HG_NOMEM);
    for (uint32_t i = 0; i < count; i++)
        in.samples.values[i] = i + 0.5;
    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    CHECK(HG_Create(example->context, target, id, &handle));
    CHECK(example_call(example->context, handle, &in));
    CHECK(HG_Get_output(handle, &out));
    CHECK((hg_return_t) out.ret);
    printf("%u numbers from %.1f to %.1f, mean %.1f\n", count, out.range.low, out.range.high,
           out.mean);
    CHECK(HG_Free_output(handle, &out));
    CHECK(HG_Destroy(handle));
    CHECK(HG_Addr_free(example->hg_class, target));
    free(in.samples.values);
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id =
        MERCURY_REGISTER(example.hg_class, "describe", describe_in_t, describe_out_t, describe);

    if (is_target)
        example_serve(&example);
    else
        send_samples(&example, argv[1], id, argc > 2 ? (uint32_t) atoi(argv[2]) : 100);
    example_close(&example);
    return 0;
}
