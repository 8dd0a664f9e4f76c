/* SPDX-License-Identifier: BSD-3-Clause */
/* Many clients and several threads: each thread of the origin is a client with its own context;
 * the threads of the target share one context, and handlers run in any of them. threads --listen
 * na+sm threads ADDRESS           8 clients, 500 RPCs each */
#include "example.h"

#include <pthread.h>
#include <stdatomic.h>

#define CLIENTS 8
#define WORKERS 4
#define RPCS    500

MERCURY_GEN_PROC(next_out_t, ((uint64_t) (number)))

static atomic_uint_fast64_t served;

/* Runs in several threads at once: data shared by handlers are atomic, or have a lock. */
static hg_return_t next(hg_handle_t handle)
{
    next_out_t out = {atomic_fetch_add(&served, 1) + 1};

    return example_answer(handle, &out);
}

static void *work(void *context)
{
    while (!example_stopped)
        example_progress(context);
    return NULL;
}

struct client {
    pthread_t thread;
    hg_context_t *context;
    hg_addr_t target;
    hg_id_t id;
    uint64_t last;
};

/* A client's handle and context are used by its own thread only; class and address are shared. */
static void *call(void *arg)
{
    struct client *client = arg;
    hg_handle_t handle;

    CHECK(HG_Create(client->context, client->target, client->id, &handle));
    for (int i = 0; i < RPCS; i++) {
        next_out_t out;

        CHECK(example_call(client->context, handle, NULL));
        CHECK(HG_Get_output(handle, &out));
        if (out.number <= client->last)
            CHECK(HG_PROTOCOL_ERROR);
        client->last = out.number;
        CHECK(HG_Free_output(handle, &out));
    }
    CHECK(HG_Destroy(handle));
    return NULL;
}

static void serve(const struct example *example)
{
    pthread_t workers[WORKERS];

    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work, example->context) == 0 ? HG_SUCCESS
                                                                             : HG_NOMEM);
    example_serve(example);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
}

static void run_clients(const struct example *example, const char *address, hg_id_t id)
{
    struct client clients[CLIENTS];
    uint64_t last = 0;
    hg_addr_t target;

    CHECK(HG_Addr_lookup2(example->hg_class, address, &target));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){.target = target, .id = id};
        clients[i].context = i == 0 ? example->context : HG_Context_create(example->hg_class);
        if (clients[i].context == NULL)
            exit(EXIT_FAILURE);
        CHECK(pthread_create(&clients[i].thread, NULL, call, &clients[i]) == 0 ? HG_SUCCESS
                                                                               : HG_NOMEM);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        last = clients[i].last > last ? clients[i].last : last;
        if (i > 0)
            CHECK(HG_Context_destroy(clients[i].context));
    }
    CHECK(HG_Addr_free(example->hg_class, target));
    printf("%d clients, the last answer was %llu\n", CLIENTS, (unsigned long long) last);
}

int main(int argc, char **argv)
{
    struct hg_init_info options = HG_INIT_INFO_INITIALIZER;
    struct example example;
    bool is_target;
    hg_id_t id;

    options.na_init_info.max_contexts = CLIENTS;
    is_target = example_open(&example, argc, argv, &options);
    id = MERCURY_REGISTER(example.hg_class, "next", void, next_out_t, next);
    if (is_target)
        serve(&example);
    else
        run_clients(&example, argv[1], id);
    example_close(&example);
    return 0;
}
