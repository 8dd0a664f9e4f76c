/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One RPC, with text in and text out:
 *     hello --listen na+sm      prints an address and answers until SIGTERM
 *     hello ADDRESS Ada         calls it
 */
#include "example.h"

#include <mercury_proc_string.h>

MERCURY_GEN_PROC(hello_in_t, ((hg_const_string_t) (name)))
MERCURY_GEN_PROC(hello_out_t, ((hg_const_string_t) (text)))

/* Runs at the target. The input may be missing or malformed: the response is then NULL. */
static hg_return_t hello(hg_handle_t handle)
{
    hello_in_t in;
    hello_out_t out = {NULL};
    char text[128];

    if (HG_Get_input(handle, &in) == HG_SUCCESS) {
        snprintf(text, sizeof(text), "Hello, %s.", in.name != NULL ? in.name : "nobody");
        out.text = text;
        HG_Free_input(handle, &in);
    }
    return example_answer(handle, &out); /* encodes the text before it returns */
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id = MERCURY_REGISTER(example.hg_class, "hello", hello_in_t, hello_out_t, hello);

    if (is_target) {
        example_serve(&example);
    } else {
        hello_in_t in = {argc > 2 ? argv[2] : "world"};
        hello_out_t out;
        hg_addr_t target;
        hg_handle_t handle;

        CHECK(HG_Addr_lookup2(example.hg_class, argv[1], &target));
        CHECK(HG_Create(example.context, target, id, &handle));
        CHECK(example_call(example.context, handle, &in));
        CHECK(HG_Get_output(handle, &out));
        printf("%s\n", out.text != NULL ? out.text : "(no answer)");
        CHECK(HG_Free_output(handle, &out));
        CHECK(HG_Destroy(handle));
        CHECK(HG_Addr_free(example.hg_class, target));
    }
    example_close(&example);
    return 0;
}
