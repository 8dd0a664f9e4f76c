/* SPDX-License-Identifier: BSD-3-Clause */
/* Deadlines and cancel: an RPC ends when its deadline expires or when it is cancelled, whatever
 * the target does, and its handle can be used again. A late response is dropped. deadline
 * --listen na+sm deadline ADDRESS */
#include "example.h"

#include <mercury_ext.h>
#include <time.h>

MERCURY_GEN_PROC(sleep_in_t, ((uint32_t) (ms)))

/* A request that the target answers when it is due. */
struct sleeper {
    hg_handle_t handle;
    uint64_t due;
    struct sleeper *next;
};

static struct sleeper *sleepers;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static hg_return_t sleep_request(hg_handle_t handle)
{
    struct sleeper *sleeper = malloc(sizeof(*sleeper));
    sleep_in_t in;
    hg_return_t ret = sleeper != NULL ? HG_Get_input(handle, &in) : HG_NOMEM;

    if (ret != HG_SUCCESS) {
        free(sleeper);
        return example_answer(handle, NULL);
    }
    *sleeper = (struct sleeper){handle, now_ms() + in.ms, sleepers};
    sleepers = sleeper;
    return HG_Free_input(handle, &in);
}

/* Answers the requests that are due. At the end none is answered: the reference kept for the
 * response is dropped, too. */
static void wake(bool at_end)
{
    for (struct sleeper **link = &sleepers; *link != NULL;) {
        struct sleeper *sleeper = *link;

        if (!at_end && sleeper->due > now_ms()) {
            link = &sleeper->next;
            continue;
        }
        *link = sleeper->next;
        if (at_end) {
            HG_Destroy(sleeper->handle);
            HG_Destroy(sleeper->handle);
        } else {
            example_answer(sleeper->handle, NULL);
        }
        free(sleeper);
    }
}

static void serve(const struct example *example)
{
    example_print_address(example);
    while (!example_stopped) {
        example_progress(example->context);
        wake(false);
    }
    wake(true);
}

static void show(const char *what, hg_return_t ret)
{
    printf("%s: %s\n", what, HG_Error_to_string(ret));
}

static void call(const struct example *example, hg_addr_t target, hg_id_t id)
{
    sleep_in_t in = {60000};
    struct example_call cancelled = {false, HG_SUCCESS};
    hg_handle_t handle;

    CHECK(HG_Create(example->context, target, id, &handle));

    CHECK(HG_Set_deadline(handle, 50)); /* milliseconds; from the next forward on */
    show("deadline of 50 ms", example_call(example->context, handle, &in));

    CHECK(HG_Set_deadline(handle, 10000)); /* also bounds how long a cancel may take */
    CHECK(HG_Forward(handle, example_called, &cancelled, &in));
    CHECK(HG_Cancel(handle));
    while (!cancelled.done)
        example_progress(example->context);
    show("cancelled", cancelled.ret);

    in.ms = 0;
    show("the same handle again", example_call(example->context, handle, &in));
    CHECK(HG_Destroy(handle));
}

int main(int argc, char **argv)
{
    struct example example;
    bool is_target = example_open(&example, argc, argv, NULL);
    hg_id_t id = MERCURY_REGISTER(example.hg_class, "sleep", sleep_in_t, void, sleep_request);

    if (is_target) {
        serve(&example);
    } else {
        hg_addr_t target;

        CHECK(HG_Addr_lookup2(example.hg_class, argv[1], &target));
        call(&example, target, id);
        CHECK(HG_Addr_free(example.hg_class, target));
    }
    example_close(&example);
    return 0;
}
