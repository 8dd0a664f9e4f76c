/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pieces of memory are in flight to a peer that does not read. The memory can be deregistered at
 * once and is not read afterwards, and the connection survives. Over sockets, where pieces queue.
 */

#include "transport/transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define INIT  "ucx+tcp://127.0.0.1"
#define BYTES (16u << 20) /* more than the sockets hold */
#define SMALL 100000u
#define POLLS 200

/* The origin, the target, and the memory of both. */
struct scene {
    struct end origin;
    struct end target;
    na_addr_t *addr;
    uint8_t *remote;
    na_mem_handle_t *exposed;
    na_mem_handle_t *handle; /* deserialized by the origin from `exposed` */
    uint8_t *local;
    na_mem_handle_t *local_mem;
    na_op_id_t *op;
};

static uint8_t *memory_map(int value)
{
    uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, value, BYTES);
    return memory;
}

static void expose(struct scene *scene, void *base, size_t size)
{
    uint8_t packed[4096];
    size_t packed_size;

    scene->exposed = mem_open(&scene->target, base, size, NA_MEM_READWRITE);
    packed_size = NA_Mem_handle_get_serialize_size(scene->target.na_class, scene->exposed);
    assert_in_range(packed_size, 1, sizeof(packed));
    assert_int_equal(
        NA_Mem_handle_serialize(scene->target.na_class, packed, packed_size, scene->exposed),
        NA_SUCCESS);
    assert_int_equal(
        NA_Mem_handle_deserialize(scene->origin.na_class, &scene->handle, packed, packed_size),
        NA_SUCCESS);
}

static void scene_open(struct scene *scene, const char *key)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.auth_key = key;
    end_open(&scene->origin, INIT, &info);
    end_open(&scene->target, INIT, &info);
    scene->addr = end_lookup(&scene->origin, &scene->target);
    scene->remote = memory_map(1);
    scene->local = memory_map(2);
    expose(scene, scene->remote, BYTES);
    scene->local_mem = mem_open(&scene->origin, scene->local, BYTES, NA_MEM_READWRITE);
    scene->op = NA_Op_create(scene->origin.na_class, NA_OP_SINGLE);
    assert_non_null(scene->op);
}

static void scene_close(struct scene *scene)
{
    NA_Op_destroy(scene->origin.na_class, scene->op);
    NA_Mem_handle_free(scene->origin.na_class, scene->handle);
    mem_close(&scene->target, scene->exposed);
    if (scene->local_mem != NULL)
        mem_close(&scene->origin, scene->local_mem);
    (void) munmap(scene->remote, BYTES);
    (void) munmap(scene->local, BYTES);
    NA_Addr_free(scene->origin.na_class, scene->addr);
    end_close(&scene->origin);
    end_close(&scene->target);
}

static void start(struct scene *scene, bool put, size_t size, struct event *event)
{
    assert_int_equal((put ? NA_Put : NA_Get)(scene->origin.na_class, scene->origin.context,
                                             event_callback, event, scene->local_mem, 0,
                                             scene->handle, 0, size, scene->addr, 0, scene->op),
                     NA_SUCCESS);
}

static void finish(struct scene *scene, struct event *event)
{
    uint64_t limit = now_ms() + TEST_WAIT_MS;

    while (event->done == 0 && now_ms() < limit) {
        end_progress(&scene->origin, 0);
        end_progress(&scene->target, 0);
    }
    assert_true(event->done);
}

/* A transfer that succeeds, and establishes the connection if there is none. */
static void transfer(struct scene *scene, bool put, size_t size)
{
    struct event event = {0};

    start(scene, put, size, &event);
    finish(scene, &event);
    assert_int_equal(event.ret, NA_SUCCESS);
}

static void deregistered_memory_is_not_waited_for(void **state)
{
    struct event event = {0};
    struct scene scene;

    (void) state;
    scene_open(&scene, NULL);
    transfer(&scene, false, SMALL);
    assert_int_equal(scene.local[SMALL - 1], 1);
    start(&scene, false, BYTES, &event);
    for (int i = 0; i < POLLS; i++)
        end_progress(&scene.target, 0); /* the origin does not read */
    mem_close(&scene.target, scene.exposed);
    /* an access now raises SIGSEGV */
    assert_int_equal(mprotect(scene.remote, BYTES, PROT_NONE), 0);
    finish(&scene, &event);
    assert_int_equal(event.ret, NA_PERMISSION);
    assert_int_equal(scene.local[BYTES - 1], 2);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_not_equal(scene.local[i], 0); /* the filler of withdrawn pieces was not stored */

    /* The next transfer uses the same connection. */
    NA_Mem_handle_free(scene.origin.na_class, scene.handle);
    assert_int_equal(mprotect(scene.remote, BYTES, PROT_READ | PROT_WRITE), 0);
    expose(&scene, scene.remote, BYTES);
    memset(scene.remote, 3, BYTES);
    transfer(&scene, false, BYTES);
    assert_int_equal(memcmp(scene.local, scene.remote, BYTES), 0);
    scene_close(&scene);
}

static void a_cancelled_put_is_not_waited_for(void **state)
{
    struct event event = {0};
    struct scene scene;

    (void) state;
    scene_open(&scene, NULL);
    transfer(&scene, true, SMALL);
    assert_int_equal(scene.remote[SMALL - 1], 2);
    start(&scene, true, BYTES, &event);
    for (int i = 0; i < POLLS; i++)
        end_progress(&scene.origin, 0); /* the target does not read */
    assert_int_equal(NA_Cancel(scene.origin.na_class, scene.origin.context, scene.op), NA_SUCCESS);
    assert_true(event_wait(&scene.origin, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_CANCELED);
    mem_close(&scene.origin, scene.local_mem);
    assert_int_equal(mprotect(scene.local, BYTES, PROT_NONE), 0);
    end_progress(&scene.target, 50);
    assert_int_equal(scene.remote[BYTES - 1], 1);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_not_equal(scene.remote[i], 0);

    assert_int_equal(mprotect(scene.local, BYTES, PROT_READ | PROT_WRITE), 0);
    scene.local_mem = mem_open(&scene.origin, scene.local, BYTES, NA_MEM_READWRITE);
    memset(scene.local, 4, BYTES);
    transfer(&scene, true, BYTES);
    assert_int_equal(memcmp(scene.local, scene.remote, BYTES), 0);
    scene_close(&scene);
}

/* With a key a put is never sent along with its request, which is sealed. */
static void transfers_of_all_sizes_work_with_a_key(void **state)
{
    struct scene scene;

    (void) state;
    scene_open(&scene, "a key");
    for (size_t size = 100; size <= BYTES; size *= 6) {
        memset(scene.local, (int) (size % 251), size);
        transfer(&scene, true, size);
        assert_memory_equal(scene.local, scene.remote, size);
        memset(scene.remote, (int) (size % 241), size);
        transfer(&scene, false, size);
        assert_memory_equal(scene.local, scene.remote, size);
    }
    scene_close(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(deregistered_memory_is_not_waited_for),
        cmocka_unit_test(a_cancelled_put_is_not_waited_for),
        cmocka_unit_test(transfers_of_all_sizes_work_with_a_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
