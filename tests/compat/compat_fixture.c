/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An origin and a target in one process.
 */
#include "compat/compat_fixture.h"

#include <time.h>

#define WAIT_MS 60000

static long now_ms(void);
static void side_progress(const struct side *side);
static hg_return_t handle_call(hg_handle_t handle);

hg_return_t proc_call_in(hg_proc_t proc, void *data)
{
    struct call_in *in = data;
    hg_return_t ret = hg_proc_int32_t(proc, &in->number);

    if (ret != HG_SUCCESS)
        return ret;
    return hg_proc_hg_string_t(proc, &in->text);
}

hg_return_t proc_call_out(hg_proc_t proc, void *data)
{
    struct call_out *out = data;

    return hg_proc_int32_t(proc, &out->number);
}

int compat_setup(void **state)
{
    struct compat *compat = calloc(1, sizeof(*compat));

    assert_non_null(compat);
    side_open(&compat->origin, compat, HG_FALSE);
    side_open(&compat->target, compat, HG_TRUE);
    assert_int_equal(HG_Register(compat->origin.hg_class, RPC_UNKNOWN, NULL, NULL, NULL),
                     HG_SUCCESS);
    compat->addr = side_lookup(&compat->origin, &compat->target);
    compat->handler = compat_answer;
    compat->destroy_handle = false;
    *state = compat;
    return 0;
}

int compat_teardown(void **state)
{
    struct compat *compat = *state;

    if (compat == NULL)
        return -1; /* setup failed */
    compat_run(compat, 5);
    assert_int_equal(HG_Addr_free(compat->origin.hg_class, compat->addr), HG_SUCCESS);
    side_close(&compat->origin);
    side_close(&compat->target);
    free(compat);
    return 0;
}

void side_open(struct side *side, struct compat *compat, uint8_t listen)
{
    side->hg_class = test_class_open(listen, NULL);
    assert_non_null(side->hg_class);
    side_register(side, compat);
    side->context = HG_Context_create(side->hg_class);
    assert_non_null(side->context);
}

void side_register(const struct side *side, struct compat *compat)
{
    hg_class_t *c = side->hg_class;

    assert_int_equal(HG_Register(c, RPC_CALL, proc_call_in, proc_call_out, handle_call),
                     HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_ONEWAY, proc_call_in, NULL, handle_call), HG_SUCCESS);
    assert_int_equal(HG_Registered_disable_response(c, RPC_ONEWAY, HG_TRUE), HG_SUCCESS);
    assert_int_equal(HG_Register_data(c, RPC_CALL, compat, NULL), HG_SUCCESS);
    assert_int_equal(HG_Register_data(c, RPC_ONEWAY, compat, NULL), HG_SUCCESS);
}

void side_close(const struct side *side)
{
    if (side->context != NULL)
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

void compat_progress(const struct compat *compat)
{
    side_progress(&compat->origin);
    side_progress(&compat->target);
}

void compat_wait(const struct compat *compat, const int *counter, int value)
{
    long end = now_ms() + WAIT_MS;

    while (*counter < value && now_ms() < end)
        compat_progress(compat);
    assert_int_equal(*counter, value);
}

void compat_run(const struct compat *compat, int ms)
{
    long end = now_ms() + ms;

    do
        compat_progress(compat);
    while (now_ms() < end);
}

hg_handle_t compat_create(const struct compat *compat, hg_id_t id)
{
    hg_handle_t handle = HG_HANDLE_NULL;

    assert_int_equal(HG_Create(compat->origin.context, compat->addr, id, &handle), HG_SUCCESS);
    assert_non_null(handle);
    return handle;
}

void compat_forward(struct compat *compat, hg_handle_t handle)
{
    char text[] = "three";
    struct call_in in = {3, text};

    assert_int_equal(HG_Forward(handle, compat_forwarded, compat, &in), HG_SUCCESS);
}

hg_handle_t compat_call(struct compat *compat, hg_id_t id)
{
    hg_handle_t handle = compat_create(compat, id);

    compat->forwarded = 0;
    compat_forward(compat, handle);
    compat_wait(compat, &compat->forwarded, 1);
    return handle;
}

hg_return_t compat_forwarded(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;
    struct call_out out;

    compat->ret = info->ret;
    compat->refs = HG_Ref_get(info->info.forward.handle);
    compat->number = -1;
    if (info->ret == HG_SUCCESS && HG_Get_info(info->info.forward.handle)->id == RPC_CALL) {
        assert_int_equal(HG_Get_output(info->info.forward.handle, &out), HG_SUCCESS);
        compat->number = out.number;
        assert_int_equal(HG_Free_output(info->info.forward.handle, &out), HG_SUCCESS);
    }
    if (compat->destroy_handle)
        assert_int_equal(HG_Destroy(info->info.forward.handle), HG_SUCCESS);
    compat->forwarded++;
    return HG_SUCCESS;
}

hg_return_t compat_responded(const struct hg_cb_info *info)
{
    struct compat *compat = info->arg;

    assert_int_equal(info->ret, HG_SUCCESS);
    compat->sent_refs = HG_Ref_get(info->info.respond.handle);
    compat->responded++;
    return HG_SUCCESS;
}

hg_return_t compat_answer(struct compat *compat, hg_handle_t handle)
{
    if (HG_Get_info(handle)->id == RPC_CALL)
        assert_int_equal(compat_respond(compat, handle), HG_SUCCESS);
    return HG_Destroy(handle);
}

hg_return_t compat_keep(struct compat *compat, hg_handle_t handle)
{
    compat->kept = handle;
    return HG_SUCCESS;
}

hg_return_t compat_respond(struct compat *compat, hg_handle_t handle)
{
    struct call_out out = {4};

    return HG_Respond(handle, compat_responded, compat, &out);
}

static long now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void side_progress(const struct side *side)
{
    unsigned int count = 0;

    if (side->context == NULL)
        return;
    (void) HG_Progress(side->context, 0);
    while (HG_Trigger(side->context, 0, 1, &count) == HG_SUCCESS && count > 0)
        ;
}

static hg_return_t handle_call(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);
    struct compat *compat = HG_Registered_data(info->hg_class, info->id);
    hg_return_t ret = compat->handler(compat, handle);

    compat->handled++;
    return ret;
}
