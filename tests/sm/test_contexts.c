/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and transfers to contexts that have not been created, or were destroyed. */

#include "sm_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 1000000u

/* A class with two contexts, of which only the first one is created, and a sender. */
struct scene {
    struct end first;
    na_context_t *second;
    struct end sender;
    na_addr_t *peer;
};

static void scene_open(struct scene *scene)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    info.max_contexts = 2;
    end_open(&scene->first, "na+sm", &info);
    end_open(&scene->sender, "na+sm", NULL);
    scene->peer = end_lookup(&scene->sender, &scene->first);
    scene->second = NULL;
}

static void scene_create(struct scene *scene)
{
    scene->second = NA_Context_create_id(scene->first.na_class, 1);
    assert_non_null(scene->second);
}

static void scene_destroy(struct scene *scene)
{
    assert_int_equal(NA_Context_destroy(scene->first.na_class, scene->second), NA_SUCCESS);
    scene->second = NULL;
}

static void scene_close(struct scene *scene)
{
    if (scene->second != NULL)
        scene_destroy(scene);
    NA_Addr_free(scene->sender.na_class, scene->peer);
    end_close(&scene->sender);
    end_close(&scene->first);
    check_clean();
}

/* Sends to the second context. Returns the status of the call or of the operation. */
static na_return_t scene_send(struct scene *scene, na_tag_t tag)
{
    na_op_id_t *op = NA_Op_create(scene->sender.na_class, NA_OP_SINGLE);
    struct event event = {0};
    na_return_t ret;

    ret = NA_Msg_send_unexpected(scene->sender.na_class, scene->sender.context, event_callback,
                                 &event, "x", 1, NULL, scene->peer, 1, tag, op);
    if (ret == NA_SUCCESS) {
        assert_true(event_wait(&scene->sender, &event, TEST_WAIT_MS));
        ret = event.ret;
    }
    NA_Op_destroy(scene->sender.na_class, op);
    return ret;
}

/* Receives one message with this tag at the second context. */
static void scene_receive(struct scene *scene, na_tag_t tag)
{
    struct end second = {scene->first.na_class, scene->second};
    na_op_id_t *op = NA_Op_create(second.na_class, NA_OP_SINGLE);
    struct event event = {0};
    char byte;

    assert_int_equal(end_receive_unexpected(&second, &event, &byte, 1, op), NA_SUCCESS);
    assert_true(event_wait(&second, &event, TEST_WAIT_MS));
    assert_int_equal(event.ret, NA_SUCCESS);
    assert_int_equal(event.tag, tag);
    NA_Addr_free(second.na_class, event.source);
    NA_Op_destroy(second.na_class, op);
}

static void messages_wait_for_a_context_that_is_not_created_yet(void **state)
{
    struct scene scene;

    (void) state;
    scene_open(&scene);
    assert_int_equal(scene_send(&scene, 1), NA_SUCCESS);
    scene_create(&scene);
    scene_receive(&scene, 1);
    scene_close(&scene);
}

static void messages_to_a_destroyed_context_are_errors(void **state)
{
    struct scene scene;

    (void) state;
    scene_open(&scene);
    for (na_tag_t tag = 0; tag < 3; tag++) {
        scene_create(&scene);
        assert_int_equal(scene_send(&scene, tag), NA_SUCCESS);
        scene_receive(&scene, tag);
        scene_destroy(&scene);
        assert_int_equal(scene_send(&scene, 77), NA_HOSTUNREACH);
        assert_int_equal(end_send(&scene.sender, scene.peer, "x", 1, tag, true), NA_SUCCESS);
    }
    scene_close(&scene);
}

/* More messages than the ring and the queue of deferred messages hold. */
static void sends_that_wait_for_space_end_with_their_context(void **state)
{
    enum {
        COUNT = 400
    };
    static struct event events[COUNT];
    static na_op_id_t *ops[COUNT];
    struct scene scene;
    int sent = 0;

    (void) state;
    scene_open(&scene);
    scene_create(&scene);
    for (int i = 0; i < COUNT; i++) {
        ops[i] = NA_Op_create(scene.sender.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_send_unexpected(scene.sender.na_class, scene.sender.context,
                                                event_callback, &events[i], "x", 1, NULL,
                                                scene.peer, 1, 0, ops[i]),
                         NA_SUCCESS);
    }
    end_progress(&scene.sender, 50);
    assert_int_equal(events[COUNT - 1].done, 0);
    scene_destroy(&scene);
    for (int i = 0; i < COUNT; i++) {
        assert_true(event_wait(&scene.sender, &events[i], TEST_DEATH_MS));
        assert_true(events[i].ret == NA_SUCCESS || events[i].ret == NA_HOSTUNREACH);
        sent += events[i].ret == NA_SUCCESS;
        NA_Op_destroy(scene.sender.na_class, ops[i]);
    }
    assert_in_range(sent, 1, COUNT - 1);
    scene_close(&scene);
}

/* One of two responses was sent before the context was destroyed, and is still delivered. */
static void receives_from_a_destroyed_context_end(void **state)
{
    struct event answered = {0}, unanswered = {0}, sent = {0};
    struct scene scene;
    na_op_id_t *ops[3];
    na_addr_t *back;
    char bytes[2];

    (void) state;
    scene_open(&scene);
    scene_create(&scene);
    back = end_lookup(&scene.first, &scene.sender);
    for (int i = 0; i < 2; i++) {
        ops[i] = NA_Op_create(scene.sender.na_class, NA_OP_SINGLE);
        assert_int_equal(NA_Msg_recv_expected(scene.sender.na_class, scene.sender.context,
                                              event_callback, i == 0 ? &answered : &unanswered,
                                              &bytes[i], 1, NULL, scene.peer, 1, (na_tag_t) i,
                                              ops[i]),
                         NA_SUCCESS);
    }
    ops[2] = NA_Op_create(scene.first.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Msg_send_expected(scene.first.na_class, scene.second, event_callback, &sent,
                                          "y", 1, NULL, back, 0, 0, ops[2]),
                     NA_SUCCESS);
    (void) NA_Trigger(scene.second, 1, NULL);
    assert_int_equal(sent.done, 1);
    scene_destroy(&scene);
    assert_true(event_wait(&scene.sender, &unanswered, TEST_DEATH_MS));
    assert_int_equal(unanswered.ret, NA_HOSTUNREACH);
    assert_int_equal(answered.done, 1);
    assert_int_equal(answered.ret, NA_SUCCESS);
    assert_int_equal(bytes[0], 'y');
    for (int i = 0; i < 2; i++)
        NA_Op_destroy(scene.sender.na_class, ops[i]);
    NA_Op_destroy(scene.first.na_class, ops[2]);
    NA_Addr_free(scene.first.na_class, back);
    scene_close(&scene);
}

/* The context that serves a copied transfer is destroyed: the transfer ends with an error. */
static void copies_through_a_destroyed_context_end(void **state)
{
    struct event event = {0};
    na_mem_handle_t *local, *exposed, *remote;
    uint8_t *memory = calloc(2, BYTES), packed[256];
    struct scene scene;
    na_op_id_t *op;

    (void) state;
    assert_int_equal(setenv("AMALGAM_SM_RMA", "copy", 1), 0);
    scene_open(&scene);
    assert_int_equal(unsetenv("AMALGAM_SM_RMA"), 0);
    scene_create(&scene);
    exposed = mem_open(&scene.first, memory, BYTES, NA_MEM_READWRITE);
    local = mem_open(&scene.sender, memory + BYTES, BYTES, NA_MEM_READWRITE);
    assert_int_equal(NA_Mem_handle_serialize(scene.first.na_class, packed, sizeof(packed), exposed),
                     NA_SUCCESS);
    assert_int_equal(
        NA_Mem_handle_deserialize(scene.sender.na_class, &remote, packed, sizeof(packed)),
        NA_SUCCESS);
    op = NA_Op_create(scene.sender.na_class, NA_OP_SINGLE);
    assert_int_equal(NA_Get(scene.sender.na_class, scene.sender.context, event_callback, &event,
                            local, 0, remote, 0, BYTES, scene.peer, 1, op),
                     NA_SUCCESS);
    end_progress(&scene.sender, 20);
    assert_int_equal(event.done, 0);
    scene_destroy(&scene);
    assert_true(event_wait(&scene.sender, &event, TEST_DEATH_MS));
    assert_int_equal(event.ret, NA_HOSTUNREACH);
    NA_Op_destroy(scene.sender.na_class, op);
    NA_Mem_handle_free(scene.sender.na_class, remote);
    mem_close(&scene.sender, local);
    mem_close(&scene.first, exposed);
    scene_close(&scene);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_wait_for_a_context_that_is_not_created_yet),
        cmocka_unit_test(messages_to_a_destroyed_context_are_errors),
        cmocka_unit_test(sends_that_wait_for_space_end_with_their_context),
        cmocka_unit_test(receives_from_a_destroyed_context_end),
        cmocka_unit_test(copies_through_a_destroyed_context_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
