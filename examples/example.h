/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by the examples, so that each can show one idea: exit on errors, open and close a
 * class with one context, make progress, call and respond. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <mercury.h>
#include <mercury_ext.h>
#include <mercury_macros.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program if a function of HG fails. */
#define CHECK(call) example_check((call), #call)

struct example {
    hg_class_t *hg_class;
    hg_context_t *context;
};

/* A forward that example_call() waits for. */
struct example_call {
    bool done;
    hg_return_t ret;
};

static atomic_bool example_stopped; /* set by a signal; read by every thread that makes progress */

static inline void example_check(hg_return_t ret, const char *what)
{
    if (ret == HG_SUCCESS)
        return;
    fprintf(stderr, "%s: %s\n", what, HG_Error_to_string(ret));
    exit(EXIT_FAILURE);
}

static inline void example_stop(int number)
{
    (void) number;
    atomic_store(&example_stopped, true);
}

/* Opens a class from a command line: "--listen INIT", or the address of a target, which begins
 * with its init string. Options may be NULL. */
static inline bool example_open(struct example *example, int argc, char **argv,
                                const struct hg_init_info *options)
{
    bool is_target = argc > 2 && strcmp(argv[1], "--listen") == 0;
    char init[64] = "";

    if (argc < 2 || (argv[1][0] == '-' && !is_target)) {
        fprintf(stderr, "usage: %s --listen INIT [...] | ADDRESS [...]\n", argv[0]);
        exit(EXIT_FAILURE);
    }
    snprintf(init, sizeof(init), "%.*s", (int) strcspn(argv[1], ":"), argv[1]);
    example->hg_class =
        HG_Init_opt2(is_target ? argv[2] : init, is_target, HG_VERSION(2, 4), options);
    example->context = example->hg_class != NULL ? HG_Context_create(example->hg_class) : NULL;
    if (example->context == NULL)
        exit(EXIT_FAILURE); /* the log says why */
    signal(SIGTERM, example_stop);
    signal(SIGINT, example_stop);
    CHECK(HG_Class_set_default_deadline(example->hg_class, 60000)); /* ms, whatever peers do */
    return is_target;
}

/* Waits for at most 100 ms, then runs the callbacks and handlers that are due. */
static inline void example_progress(hg_context_t *context)
{
    hg_return_t ret = HG_Progress(context, 100);
    unsigned int count = 1;

    if (ret != HG_TIMEOUT)
        CHECK(ret);
    while (count > 0 && HG_Trigger(context, 0, 16, &count) == HG_SUCCESS)
        ;
}

/* Stops receiving requests, and finishes those that have arrived. */
static inline void example_close(struct example *example)
{
    struct hg_diag_counters counters;

    CHECK(HG_Context_unpost(example->context));
    while (HG_Class_get_counters(example->hg_class, &counters) == HG_SUCCESS &&
           counters.rpc_req_recv_active_count > 0)
        example_progress(example->context);
    CHECK(HG_Context_destroy(example->context));
    CHECK(HG_Finalize(example->hg_class));
}

static inline void example_print_address(const struct example *example)
{
    char text[512];
    hg_size_t size = sizeof(text);
    hg_addr_t self;

    CHECK(HG_Addr_self(example->hg_class, &self));
    CHECK(HG_Addr_to_string(example->hg_class, text, &size, self));
    CHECK(HG_Addr_free(example->hg_class, self));
    printf("%s\n", text);
    fflush(stdout);
}

/* A target's main loop, until SIGTERM or SIGINT. */
static inline void example_serve(const struct example *example)
{
    example_print_address(example);
    while (!example_stopped)
        example_progress(example->context);
}

static inline hg_return_t example_called(const struct hg_cb_info *info)
{
    struct example_call *call = info->arg;

    *call = (struct example_call){true, info->ret};
    return HG_SUCCESS;
}

/* Forwards a handle and waits for the response. */
static inline hg_return_t example_call(hg_context_t *context, hg_handle_t handle, void *in)
{
    struct example_call call = {false, HG_SUCCESS};
    hg_return_t ret = HG_Forward(handle, example_called, &call, in);

    while (ret == HG_SUCCESS && !call.done)
        example_progress(context);
    return ret != HG_SUCCESS ? ret : call.ret;
}

/* Responds and drops the handler's reference; after an error the response's reference, too. */
static inline hg_return_t example_answer(hg_handle_t handle, void *out)
{
    hg_return_t ret = HG_Respond(handle, NULL, NULL, out);

    if (ret != HG_SUCCESS)
        HG_Destroy(handle);
    HG_Destroy(handle);
    return ret;
}

#endif /* EXAMPLE_H */
