/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory on the same node, a fabric beyond: with auto_sm on both sides a class over any
 * fabric reaches peers on its node through shared memory, and the program does not change.
 * auto_sm --listen ofi+tcp auto_sm ADDRESS */
#include "example.h"

#include <mercury_ext.h>

static hg_return_t ping(hg_handle_t handle)
{
    return example_answer(handle, NULL);
}

static void call(const struct example *example, const char *address, hg_id_t id)
{
    struct hg_ext_counters counters;
    hg_addr_t target;
    hg_handle_t handle;

    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    CHECK(HG_Create(example->context, target, id, &handle));
    for (int i = 0; i < 100; i++)
        CHECK(example_call(example->context, handle, NULL));
    CHECK(HG_Class_get_ext_counters(example->hg_class, &counters, sizeof(counters)));
    printf("%llu of 100 requests through shared memory\n",
           (unsigned long long) counters.sm_req_sent_count);
    printf("the peer is reached through %s\n", HG_Addr_is_auto_sm(example->hg_class, target)
                                                   ? "shared memory"
                                                   : HG_Class_get_protocol(example->hg_class));
    CHECK(HG_Destroy(handle));
    CHECK(HG_Addr_free(example->hg_class, target));
}

int main(int argc, char **argv)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    struct example example;
    bool is_target;
    hg_id_t id;

    options.auto_sm = true; /* the address then names both ways, and each origin takes its own */
    is_target = example_open(&example, argc, argv, &options);
    id = MERCURY_REGISTER(example.hg_class, "ping", void, void, ping);
    if (is_target)
        example_serve(&example);
    else
        call(&example, argv[1], id);
    example_close(&example);
    return 0;
}
