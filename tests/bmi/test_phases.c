/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets between two endpoints of this process that are abandoned in every phase: after no
 * step of either side, after one of each, and so on until the transfer completes. Afterwards the
 * memory is protected with mprotect(), so that any access fails.
 */

#include "transport/transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define BYTES ((size_t) 16 << 20)

/* A time limit for completions that depend on nobody else. */
#define AT_ONCE_MS 10000

static struct end origin, target;
static na_addr_t *to_target;
static uint8_t *local, *remote;
static na_mem_handle_t *local_mem, *remote_mem, *exposed_mem;

static void expose(void)
{
    uint8_t packed[4096];
    size_t size;

    exposed_mem = mem_open(&target, remote, BYTES, NA_MEM_READWRITE);
    size = NA_Mem_handle_get_serialize_size(target.na_class, exposed_mem);
    assert_true(size <= sizeof(packed));
    assert_int_equal(NA_Mem_handle_serialize(target.na_class, packed, size, exposed_mem),
                     NA_SUCCESS);
    assert_int_equal(NA_Mem_handle_deserialize(origin.na_class, &remote_mem, packed, size),
                     NA_SUCCESS);
}

static void *map_bytes(void)
{
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static int setup(void **state)
{
    (void) state;
    end_open(&origin, NULL, NULL);
    end_open(&target, NULL, NULL);
    to_target = end_lookup(&origin, &target);
    local = map_bytes();
    remote = map_bytes();
    local_mem = mem_open(&origin, local, BYTES, NA_MEM_READWRITE);
    expose();
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    NA_Mem_handle_free(origin.na_class, remote_mem);
    mem_close(&target, exposed_mem);
    mem_close(&origin, local_mem);
    NA_Addr_free(origin.na_class, to_target);
    end_close(&origin);
    end_close(&target);
    assert_int_equal(munmap(local, BYTES), 0);
    assert_int_equal(munmap(remote, BYTES), 0);
    return 0;
}

static void step(void)
{
    end_progress(&origin, 0);
    end_progress(&target, 0);
}

static void steps(unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        step();
}

static void start(bool is_put, struct event *event, na_op_id_t *op)
{
    na_return_t ret = is_put ? NA_Put(origin.na_class, origin.context, event_callback, event,
                                      local_mem, 0, remote_mem, 0, BYTES, to_target, 0, op)
                             : NA_Get(origin.na_class, origin.context, event_callback, event,
                                      local_mem, 0, remote_mem, 0, BYTES, to_target, 0, op);

    assert_int_equal(ret, NA_SUCCESS);
}

/* Progresses both sides until the event has happened. */
static void finish(struct event *event)
{
    uint64_t end = now_ms() + TEST_WAIT_MS;

    while (!event->done && now_ms() < end)
        step();
    assert_int_equal(event->done, 1);
}

static void check_whole(bool is_put)
{
    na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
    struct event event = {0};

    memset(local, is_put ? 0x31 : 0, BYTES);
    memset(remote, is_put ? 0 : 0x31, BYTES);
    start(is_put, &event, op);
    finish(&event);
    assert_int_equal(event.ret, NA_SUCCESS);
    assert_int_equal(memcmp(local, remote, BYTES), 0);
    NA_Op_destroy(origin.na_class, op);
}

/* Cancels after `count` steps, a number that grows from call to call. True: the transfer had not
 * completed. */
static bool cancel_after(bool is_put, unsigned int count)
{
    na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
    struct event event = {0};
    uint64_t end;

    memset(local, is_put ? 0x11 : 0x22, BYTES);
    memset(remote, is_put ? 0x22 : 0x11, BYTES);
    start(is_put, &event, op);
    steps(count);
    assert_int_equal(NA_Cancel(origin.na_class, origin.context, op), NA_SUCCESS);
    end = now_ms() + AT_ONCE_MS; /* the target is not involved */
    while (!event.done && now_ms() < end)
        end_progress(&origin, 0);
    if (!event.done)
        finish(&event);
    NA_Op_destroy(origin.na_class, op);
    if (event.ret == NA_SUCCESS) {
        assert_int_equal(memcmp(local, remote, BYTES), 0);
        return false;
    }
    assert_int_equal(event.ret, NA_CANCELED);
    assert_true(now_ms() < end);
    assert_int_equal(mprotect(local, BYTES, PROT_NONE), 0);
    steps(300);
    assert_int_equal(mprotect(local, BYTES, PROT_READ | PROT_WRITE), 0);
    for (size_t i = 0; is_put && i < BYTES; i += 1021)
        assert_true(remote[i] == 0x11 || remote[i] == 0x22);
    return true;
}

static void cancel_everywhere(bool is_put)
{
    unsigned int given_up = 0, whole = 0;

    check_whole(is_put);
    for (unsigned int count = 0; whole < 3 && count < 100000; count += 1 + count / 20) {
        if (cancel_after(is_put, count))
            given_up++;
        else
            whole++;
    }
    print_message("abandoned %u times, at every phase\n", given_up);
    assert_true(given_up > 3);
    assert_int_equal(whole, 3);
    check_whole(is_put);
}

static void a_put_is_given_up(void **state)
{
    (void) state;
    cancel_everywhere(true);
}

static void a_get_is_given_up(void **state)
{
    (void) state;
    cancel_everywhere(false);
}

/* Deregisters after `count` steps; the target's memory is not touched after NA_Mem_deregister().
 * True: the transfer failed. */
static bool deregister_after(bool is_put, unsigned int count)
{
    na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
    struct event event = {0};

    memset(local, is_put ? 0x11 : 0x22, BYTES);
    memset(remote, is_put ? 0x22 : 0x11, BYTES);
    start(is_put, &event, op);
    steps(count);
    mem_close(&target, exposed_mem);
    assert_int_equal(mprotect(remote, BYTES, PROT_NONE), 0);
    finish(&event);
    steps(300);
    assert_int_equal(mprotect(remote, BYTES, PROT_READ | PROT_WRITE), 0);
    NA_Mem_handle_free(origin.na_class, remote_mem);
    NA_Op_destroy(origin.na_class, op);
    expose();
    if (event.ret != NA_SUCCESS)
        return true;
    assert_int_equal(memcmp(local, remote, BYTES), 0);
    return false;
}

static void the_memory_goes(void **state)
{
    (void) state;
    for (int is_put = 0; is_put < 2; is_put++) {
        unsigned int failed = 0, whole = 0;

        check_whole(is_put);
        for (unsigned int count = 0; whole < 3 && count < 100000; count += 1 + count / 20) {
            if (deregister_after(is_put, count))
                failed++;
            else
                whole++;
        }
        assert_true(failed > 3);
        assert_int_equal(whole, 3);
        check_whole(is_put);
    }
}

/* The target closes during a transfer: the origin's side ends by itself. */
static void the_target_goes(void **state)
{
    for (unsigned int count = 0; count < 60; count += 1 + count / 3) {
        na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
        struct event event = {0};
        uint64_t end = now_ms() + TEST_WAIT_MS;

        check_whole(false);
        start(count % 2 == 0, &event, op);
        steps(count);
        mem_close(&target, exposed_mem);
        end_close(&target);
        while (!event.done && now_ms() < end)
            end_progress(&origin, 0);
        assert_int_equal(event.done, 1);
        assert_int_equal(mprotect(local, BYTES, PROT_NONE), 0);
        end_progress(&origin, 20);
        assert_int_equal(mprotect(local, BYTES, PROT_READ | PROT_WRITE), 0);
        NA_Op_destroy(origin.na_class, op);
        end_open(&target, NULL, NULL);
        NA_Mem_handle_free(origin.na_class, remote_mem);
        NA_Addr_free(origin.na_class, to_target);
        to_target = end_lookup(&origin, &target);
        expose();
    }
    (void) state;
}

/* The origin closes during a transfer: the target continues with others. */
static void the_origin_goes(void **state)
{
    for (unsigned int count = 0; count < 60; count += 1 + count / 3) {
        na_op_id_t *op = NA_Op_create(origin.na_class, NA_OP_SINGLE);
        struct event event = {0};

        check_whole(true);
        start(count % 2 == 0, &event, op);
        steps(count);
        assert_int_equal(NA_Cancel(origin.na_class, origin.context, op), NA_SUCCESS);
        while (!event.done)
            end_progress(&origin, 0);
        NA_Op_destroy(origin.na_class, op);
        NA_Mem_handle_free(origin.na_class, remote_mem);
        mem_close(&origin, local_mem);
        NA_Addr_free(origin.na_class, to_target);
        end_close(&origin);
        end_progress(&target, 5);
        end_open(&origin, NULL, NULL);
        to_target = end_lookup(&origin, &target);
        local_mem = mem_open(&origin, local, BYTES, NA_MEM_READWRITE);
        mem_close(&target, exposed_mem);
        expose();
    }
    (void) state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_put_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(a_get_is_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(the_memory_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_target_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(the_origin_goes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
