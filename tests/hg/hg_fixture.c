/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two classes in one process, origin and target of RPCs.
 */
#include "hg_fixture.h"

#include <time.h>

static struct side *side_of(hg_handle_t handle);
static hg_return_t handle_null(hg_handle_t handle);
static hg_return_t handle_echo(hg_handle_t handle);
static hg_return_t handle_oneway(hg_handle_t handle);
static hg_return_t handle_hold(hg_handle_t handle);
static hg_return_t handle_fail(hg_handle_t handle);
static hg_return_t handle_fill(hg_handle_t handle);
static hg_return_t handle_manual(hg_handle_t handle);
static hg_return_t respond_done(const struct hg_cb_info *info);

hg_return_t proc_blob(hg_proc_t proc, void *data)
{
    struct blob *blob = data;
    hg_return_t ret;

    if (hg_proc_get_op(proc) == HG_FREE) {
        free(blob->data);
        blob->data = NULL;
        return HG_SUCCESS;
    }
    ret = hg_proc_uint32_t(proc, &blob->size);
    if (ret != HG_SUCCESS)
        return ret;
    if (hg_proc_get_op(proc) == HG_DECODE) {
        if (blob->size > hg_proc_get_size_left(proc))
            return HG_OVERFLOW;
        blob->data = malloc(blob->size + 1u);
        if (blob->data == NULL)
            return HG_NOMEM;
    }
    ret = hg_proc_bytes(proc, blob->data, blob->size);
    if (ret != HG_SUCCESS && hg_proc_get_op(proc) == HG_DECODE) {
        free(blob->data);
        blob->data = NULL;
    }
    return ret;
}

hg_return_t proc_size(hg_proc_t proc, void *data)
{
    return hg_proc_uint32_t(proc, data);
}

void blob_make(struct blob *blob, uint32_t size, uint8_t seed)
{
    uint32_t i;

    blob->size = size;
    blob->data = malloc(size + 1u);
    assert_non_null(blob->data);
    for (i = 0; i < size; i++)
        blob->data[i] = (uint8_t) (i * 31u + (i >> 8) + seed);
}

void blob_check(const struct blob *blob, uint32_t size, uint8_t seed)
{
    uint32_t i;

    assert_int_equal(blob->size, size);
    for (i = 0; i < size; i++)
        if (blob->data[i] != (uint8_t) (i * 31u + (i >> 8) + seed))
            fail_msg("byte %u of %u is wrong", i, size);
}

int pair_setup(void **state)
{
    struct pair *pair = calloc(1, sizeof(*pair));

    assert_non_null(pair);
    pair_open(pair, NULL);
    *state = pair;
    return 0;
}

int pair_teardown(void **state)
{
    struct pair *pair = *state;

    if (pair == NULL)
        return -1; /* setup failed */
    pair_close(pair);
    free(pair);
    return 0;
}

void pair_open(struct pair *pair, const struct hg_init_info *info)
{
    side_open(&pair->origin, info);
    side_open(&pair->target, info);
    pair->addr = side_lookup(&pair->origin, &pair->target);
}

void pair_close(struct pair *pair)
{
    pair_run(pair, 5);
    assert_int_equal(HG_Addr_free(pair->origin.hg_class, pair->addr), HG_SUCCESS);
    side_close(&pair->origin);
    side_close(&pair->target);
}

void side_open(struct side *side, const struct hg_init_info *info)
{
    side->hg_class = test_class_open(HG_TRUE, info);
    assert_non_null(side->hg_class);
    side_register(side);
    side->context = HG_Context_create(side->hg_class);
    assert_non_null(side->context);
}

void side_register(struct side *side)
{
    hg_class_t *c = side->hg_class;
    hg_id_t id;

    assert_int_equal(HG_Register(c, RPC_NULL, NULL, NULL, handle_null), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_ECHO, proc_blob, proc_blob, handle_echo), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_ONEWAY, proc_blob, NULL, handle_oneway), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_HOLD, proc_blob, proc_blob, handle_hold), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_FAIL, NULL, NULL, handle_fail), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_FILL, proc_size, proc_blob, handle_fill), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_MANUAL, NULL, NULL, handle_manual), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(c, RPC_ONEWAY, HG_TRUE), HG_SUCCESS);
    for (id = RPC_NULL; id <= RPC_MANUAL; id++)
        assert_int_equal(HG_Register_data(c, id, side, NULL), HG_SUCCESS);
}

void side_close(struct side *side)
{
    free(side->last.data);
    side->last.data = NULL;
    assert_int_equal(HG_Context_destroy(side->context), HG_SUCCESS);
    assert_int_equal(HG_Finalize(side->hg_class), HG_SUCCESS);
}

hg_addr_t side_lookup(const struct side *from, const struct side *to)
{
    char name[512];
    hg_size_t size = sizeof(name);
    hg_addr_t self, addr;

    assert_int_equal(HG_Addr_self(to->hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(to->hg_class, name, &size, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(to->hg_class, self), HG_SUCCESS);
    assert_int_equal(HG_Addr_lookup2(from->hg_class, name, &addr), HG_SUCCESS);
    return addr;
}

void side_progress(const struct side *side)
{
    unsigned int count = 0;

    (void) HG_Progress(side->context, 0);
    while (HG_Trigger(side->context, 0, 1, &count) == HG_SUCCESS && count > 0)
        ;
}

void pair_progress(const struct pair *pair)
{
    side_progress(&pair->origin);
    side_progress(&pair->target);
}

void pair_wait_for(const struct pair *pair, const atomic_int *counter, int value)
{
    pair_until(pair, atomic_load(counter) >= value);
    assert_int_equal(atomic_load(counter), value);
}

void pair_wait_held(const struct pair *pair, const struct side *side, int count)
{
    pair_until(pair, side->held_count >= count);
    assert_true(side->held_count >= count);
}

/* RPCs arrive in order: once the echo is answered, no earlier request is still in flight. */
void pair_respond_all(struct pair *pair)
{
    pair_echo(pair, 10);
    pair_until(pair, side_counters(&pair->target).rpc_req_recv_active_count ==
                         (uint64_t) pair->target.held_count);
    side_respond_all(&pair->target, 16);
    pair_until(pair, side_counters(&pair->target).rpc_req_recv_active_count == 0);
    assert_int_equal(pair->target.held_count, 0);
}

uint32_t pair_large(const struct pair *pair)
{
    hg_size_t in = HG_Class_get_input_eager_size(pair->origin.hg_class);
    hg_size_t out = HG_Class_get_output_eager_size(pair->origin.hg_class);
    uint32_t eager = (uint32_t) (in > out ? in : out);

    return eager < 30000 ? 30000 : eager + 1000;
}

void pair_run(const struct pair *pair, unsigned int ms)
{
    uint64_t end = now_ms() + ms;

    do
        pair_progress(pair);
    while (now_ms() < end);
}

hg_handle_t pair_create(const struct pair *pair, hg_id_t id)
{
    hg_handle_t handle = HG_HANDLE_NULL;

    assert_int_equal(HG_Create(pair->origin.context, pair->addr, id, &handle), HG_SUCCESS);
    assert_non_null(handle);
    return handle;
}

hg_return_t outcome_set(const struct hg_cb_info *info)
{
    struct outcome *outcome = info->arg;

    outcome->ret = info->ret;
    outcome->type = info->type;
    atomic_fetch_add(&outcome->count, 1);
    return HG_SUCCESS;
}

hg_return_t pair_call(const struct pair *pair, hg_handle_t handle, void *in)
{
    struct outcome outcome = {0};
    hg_return_t ret = HG_Forward(handle, outcome_set, &outcome, in);

    if (ret != HG_SUCCESS)
        return ret;
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.type, HG_CB_FORWARD);
    return outcome.ret;
}

void pair_echo(const struct pair *pair, uint32_t size)
{
    hg_handle_t handle = pair_create(pair, RPC_ECHO);
    struct blob in, out = {0};

    blob_make(&in, size, 7);
    assert_int_equal(pair_call(pair, handle, &in), HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
    blob_check(&out, size, 7);
    assert_int_equal(HG_Free_output(handle, &out), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    free(in.data);
}

void side_respond_held(struct side *side, void *out)
{
    hg_handle_t handle;

    assert_true(side->held_count > 0);
    handle = side->held[--side->held_count];
    assert_int_equal(HG_Respond(handle, respond_done, side, out), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
}

void side_respond_all(struct side *side, uint32_t size)
{
    struct blob out;

    blob_make(&out, size, 2);
    while (side->held_count > 0)
        side_respond_held(side, &out);
    free(out.data);
}

struct hg_diag_counters side_counters(const struct side *side)
{
    struct hg_diag_counters counters;

    assert_int_equal(HG_Class_get_counters(side->hg_class, &counters), HG_SUCCESS);
    return counters;
}

struct hg_ext_counters side_ext_counters(const struct side *side)
{
    struct hg_ext_counters counters;

    assert_int_equal(HG_Class_get_ext_counters(side->hg_class, &counters, sizeof(counters)),
                     HG_SUCCESS);
    return counters;
}

uint64_t now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000u + (uint64_t) now.tv_nsec / 1000000u;
}

static struct side *side_of(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);

    return HG_Registered_data(info->hg_class, info->id);
}

static hg_return_t handle_null(hg_handle_t handle)
{
    struct side *side = side_of(handle);

    atomic_store(&side->context_id, HG_Get_info(handle)->context_id);
    atomic_fetch_add(&side->handled, 1);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t handle_echo(hg_handle_t handle)
{
    struct side *side = side_of(handle);
    struct blob blob;
    hg_return_t ret = HG_Get_input(handle, &blob);

    if (ret == HG_SUCCESS) {
        atomic_fetch_add(&side->handled, 1);
        ret = HG_Respond(handle, respond_done, side, &blob);
        (void) HG_Free_input(handle, &blob);
    }
    (void) HG_Destroy(handle);
    return ret;
}

static hg_return_t handle_oneway(hg_handle_t handle)
{
    struct side *side = side_of(handle);

    free(side->last.data);
    side->last.data = NULL;
    assert_int_equal(HG_Get_input(handle, &side->last), HG_SUCCESS);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_OPNOTSUPPORTED);
    atomic_fetch_add(&side->handled, 1);
    /* The decoded data are kept, so that only the reference of HG_Get_input() is dropped. */
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t handle_hold(hg_handle_t handle)
{
    struct side *side = side_of(handle);

    assert_true(side->held_count < 64);
    side->held[side->held_count++] = handle;
    atomic_fetch_add(&side->handled, 1);
    return HG_SUCCESS;
}

static hg_return_t handle_fail(hg_handle_t handle)
{
    atomic_fetch_add(&side_of(handle)->handled, 1);
    (void) HG_Destroy(handle);
    return HG_FAULT;
}

static hg_return_t handle_fill(hg_handle_t handle)
{
    struct side *side = side_of(handle);
    struct blob out;
    uint32_t size;
    hg_return_t ret;

    assert_int_equal(HG_Get_input(handle, &size), HG_SUCCESS);
    blob_make(&out, size, 9);
    atomic_fetch_add(&side->handled, 1);
    ret = HG_Respond(handle, respond_done, side, &out);
    free(out.data);
    (void) HG_Free_input(handle, &size);
    (void) HG_Destroy(handle);
    return ret;
}

/* Sends back the reserved bytes of the input, each plus one. */
static hg_return_t handle_manual(hg_handle_t handle)
{
    hg_size_t size = HG_Get_input_payload_size(handle), i;
    uint8_t *in, *out;

    assert_int_equal(HG_Get_input_buf(handle, (void **) &in, NULL), HG_SUCCESS);
    assert_int_equal(HG_Get_output_buf(handle, (void **) &out, NULL), HG_SUCCESS);
    for (i = 0; i < size; i++)
        out[i] = (uint8_t) (in[i] + 1u);
    atomic_fetch_add(&side_of(handle)->handled, 1);
    assert_int_equal(HG_Release_input_buf(handle), HG_SUCCESS);
    assert_int_equal(HG_Get_input_buf(handle, (void **) &in, NULL), HG_FAULT);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t respond_done(const struct hg_cb_info *info)
{
    struct side *side = info->arg;

    assert_int_equal(info->type, HG_CB_RESPOND);
    atomic_store(&side->respond_ret, (int) info->ret);
    atomic_fetch_add(&side->responded, 1);
    return HG_SUCCESS;
}
