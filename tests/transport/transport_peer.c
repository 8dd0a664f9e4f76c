/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer process of the tests: opens an endpoint, prints its address and executes requests (enum
 * peer_command) until its standard input ends.
 *
 * Usage: transport_peer INIT [busy|plain|idle|contexts|undumpable], or transport_peer INIT agent
 * FOLDER to be an agent (transport_agent.h).
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "na_ext.h"
#include "transport_agent.h"
#include "transport_test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PEER_CONTEXTS 3
#define PEER_RECEIVES 32 /* posted on each context */
#define PEER_SENDS    64

struct peer_receive {
    na_context_t *context;
    na_op_id_t *op;
    uint8_t *buf;
    struct peer_receive *next; /* links the messages that arrived while a reply was delayed */
    na_addr_t *from;
    na_tag_t tag;
    size_t size;
};

struct peer_send {
    na_context_t *context;
    na_addr_t *to; /* freed when the send has completed */
    na_op_id_t *op;
    uint8_t *buf;
    bool in_use;
};

/* A request in progress: the context on which it arrived, its source, and the reply. */
struct peer_call {
    na_context_t *context;
    na_addr_t *from;
    na_tag_t tag;
    struct peer_request request;
    const uint8_t *message;
    size_t size;
};

static bool peer_run(const char *option);
static bool peer_session(const char *option);
static bool peer_open(const char *init_string, const char *option);
static void peer_post(struct peer_receive *receive);
static void peer_received(const struct na_cb_info *info);
static void peer_handle(struct peer_receive *receive);
static void peer_serve(const struct peer_call *call);
static void peer_serve_memory(const struct peer_call *call);
static void peer_count(const struct peer_call *call);
static void peer_progress(unsigned int ms);
static struct peer_send *peer_send_get(na_context_t *context);
static bool peer_send(na_context_t *context, na_addr_t *to, uint8_t to_id, na_tag_t tag,
                      const void *buf, size_t size, bool expected);
static void peer_send_done(const struct na_cb_info *info);
static void peer_send_free(struct peer_send *send);
static void peer_reply(const struct peer_call *call, const void *buf, size_t size);
static void peer_expose(const struct peer_call *call);
static void peer_bytes_free(void);
static void peer_flood(const struct peer_call *call);
static void peer_get_loop(const struct peer_call *call);
static void peer_transfer(const struct peer_call *call);
static na_return_t peer_transfer_once(const struct peer_call *call, uint8_t *buf, bool put,
                                      size_t length);
static void peer_transfer_done(const struct na_cb_info *info);
static void peer_address(const struct peer_call *call);
static void peer_meet(const struct peer_call *call);
static bool peer_close(void);
static void peer_memory_close(void);

static const char *peer_init_string;
static na_class_t *peer_class;
static na_context_t *peer_contexts[PEER_CONTEXTS];
static unsigned int peer_context_count = 1;
static size_t peer_message;
static struct peer_receive peer_receives[PEER_CONTEXTS * PEER_RECEIVES];
static struct peer_send peer_sends[PEER_SENDS];
static struct peer_receive *peer_waiting, **peer_waiting_end = &peer_waiting;
static bool peer_is_answering;
static na_mem_handle_t *peer_memory;
static bool peer_memory_registered;
static uint8_t *peer_bytes;
static size_t peer_bytes_size;
static bool peer_is_allocating; /* by NA_Mem_alloc() */
static uint64_t peer_counts[2];
static uint64_t peer_next;

int main(int argc, char **argv)
{
    if (argc < 2)
        return 1;
    peer_init_string = argv[1];
    if (argc > 3 && strcmp(argv[2], "agent") == 0)
        return agent_serve(argv[3], peer_session);
    return peer_run(argc > 2 ? argv[2] : "plain") ? 0 : 1;
}

/* Serves until the input ends. */
static bool peer_run(const char *option)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char address[512];
    size_t size = sizeof(address);
    na_addr_t *self = NULL;

    if (!peer_open(peer_init_string, option))
        return false;
    if (NA_Addr_self(peer_class, &self) != NA_SUCCESS ||
        NA_Addr_to_string(peer_class, address, &size, self) != NA_SUCCESS)
        return false;
    NA_Addr_free(peer_class, self);
    (void) printf("%s\n", address);
    (void) fflush(stdout);
    do {
        if (strcmp(option, "busy") != 0)
            peer_progress(strcmp(option, "idle") == 0 ? 10000 : 50);
        else
            for (int i = 0; i < 1000; i++)
                peer_progress(0);
    } while (poll(&input, 1, 0) == 0);
    return peer_close();
}

/* Runs one of several sessions of this process. The first class of all is opened by all processes
 * together. */
static bool peer_session(const char *option)
{
    memset(peer_counts, 0, sizeof(peer_counts));
    peer_next = 0;
    peer_context_count = 1;
    peer_waiting = NULL;
    peer_waiting_end = &peer_waiting;
    if (option != NULL)
        return peer_run(option);
    peer_class = NA_Initialize(peer_init_string, true);
    return peer_class != NULL && NA_Finalize(peer_class) == NA_SUCCESS;
}

static bool peer_open(const char *init_string, const char *option)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    if (strcmp(option, "busy") == 0)
        info.progress_mode = NA_NO_BLOCK;
    if (strcmp(option, "contexts") == 0)
        info.max_contexts = (uint8_t) (peer_context_count = PEER_CONTEXTS);
    peer_class = NA_Initialize_opt2(init_string, true, NA_VERSION(6, 0), &info);
    if (peer_class == NULL)
        return false;
    peer_message = NA_Msg_get_max_unexpected_size(peer_class);
    if (NA_Msg_get_max_expected_size(peer_class) < peer_message)
        peer_message = NA_Msg_get_max_expected_size(peer_class);
    peer_is_allocating = strcmp(option, "allocated") == 0;
    if (strcmp(option, "undumpable") == 0 && prctl(PR_SET_DUMPABLE, 0) != 0)
        return false;
    for (unsigned int i = 0; i < peer_context_count; i++) {
        peer_contexts[i] = NA_Context_create_id(peer_class, (uint8_t) i);
        if (peer_contexts[i] == NULL)
            return false;
        for (unsigned int j = 0; j < PEER_RECEIVES; j++) {
            struct peer_receive *receive = &peer_receives[i * PEER_RECEIVES + j];

            receive->context = peer_contexts[i];
            receive->op = NA_Op_create(peer_class, NA_OP_SINGLE);
            receive->buf = malloc(NA_Msg_get_max_unexpected_size(peer_class));
            peer_post(receive);
        }
    }
    for (int i = 0; i < PEER_SENDS; i++) {
        peer_sends[i].op = NA_Op_create(peer_class, NA_OP_SINGLE);
        peer_sends[i].buf = malloc(peer_message);
    }
    return true;
}

static void peer_post(struct peer_receive *receive)
{
    (void) NA_Msg_recv_unexpected(peer_class, receive->context, peer_received, receive,
                                  receive->buf, NA_Msg_get_max_unexpected_size(peer_class), NULL,
                                  receive->op);
}

/* Replies leave in the order of the requests, also when one is delayed. */
static void peer_received(const struct na_cb_info *info)
{
    struct peer_receive *receive = info->arg;

    if (info->ret != NA_SUCCESS)
        return;
    receive->from = info->info.recv_unexpected.source;
    receive->tag = info->info.recv_unexpected.tag;
    receive->size = info->info.recv_unexpected.actual_buf_size;
    receive->next = NULL;
    if (!peer_is_answering && peer_waiting == NULL) {
        peer_handle(receive);
        return;
    }
    *peer_waiting_end = receive;
    peer_waiting_end = &receive->next;
}

static void peer_handle(struct peer_receive *receive)
{
    struct peer_call call = {.context = receive->context,
                             .from = receive->from,
                             .tag = receive->tag,
                             .message = receive->buf,
                             .size = receive->size};

    if (call.size >= sizeof(call.request))
        memcpy(&call.request, call.message, sizeof(call.request));
    peer_serve(&call);
    NA_Addr_free(peer_class, call.from);
    peer_post(receive);
}

static void peer_serve(const struct peer_call *call)
{
    switch (call->request.command) {
    case PEER_COUNT:
        peer_count(call);
        break;
    case PEER_REPORT:
        peer_reply(call, peer_counts, sizeof(peer_counts));
        break;
    case PEER_NAP:
        (void) usleep(call->request.a * 1000);
        break;
    case PEER_LATER:
        (void) usleep(call->request.a * 1000);
        peer_reply(call, call->message, call->size);
        break;
    case PEER_FLOOD:
    case PEER_MIX:
        peer_flood(call);
        break;
    case PEER_ECHO_TO:
        (void) peer_send(call->context, call->from, (uint8_t) call->request.a, call->tag,
                         call->message, call->size, true);
        break;
    case PEER_ADDRESS:
        peer_address(call);
        break;
    case PEER_MEET:
        peer_meet(call);
        break;
    default:
        peer_serve_memory(call);
    }
}

static void peer_serve_memory(const struct peer_call *call)
{
    uint64_t sum = 0;

    switch (call->request.command) {
    case PEER_EXPOSE:
        peer_expose(call);
        break;
    case PEER_CHECK:
        for (size_t i = 0; i < peer_bytes_size; i++)
            sum += peer_bytes[i];
        peer_reply(call, &sum, sizeof(sum));
        break;
    case PEER_HIDE:
        (void) NA_Mem_deregister(peer_class, peer_memory);
        peer_memory_registered = false;
        peer_reply(call, call->message, call->size);
        break;
    case PEER_GET_LOOP:
        peer_get_loop(call);
        break;
    case PEER_TRANSFER:
        peer_transfer(call);
        break;
    default:
        peer_reply(call, call->message, call->size);
    }
}

static void peer_count(const struct peer_call *call)
{
    peer_counts[1] += call->request.a < peer_next;
    peer_counts[0]++;
    peer_next = (uint64_t) call->request.a + 1;
}

static void peer_progress(unsigned int ms)
{
    for (unsigned int i = 0; i < peer_context_count; i++) {
        unsigned int count = 0;

        (void) NA_Poll_wait(peer_class, peer_contexts[i], ms > 0 && peer_context_count > 1 ? 1 : ms,
                            &count);
        if (count != 0)
            (void) NA_Trigger(peer_contexts[i], 64, NULL);
    }
    while (!peer_is_answering && peer_waiting != NULL) {
        struct peer_receive *receive = peer_waiting;

        peer_waiting = receive->next;
        if (peer_waiting == NULL)
            peer_waiting_end = &peer_waiting;
        peer_handle(receive);
    }
}

static struct peer_send *peer_send_get(na_context_t *context)
{
    for (;;) {
        for (int i = 0; i < PEER_SENDS; i++) {
            if (!peer_sends[i].in_use) {
                peer_sends[i].in_use = true;
                peer_sends[i].context = context;
                return &peer_sends[i];
            }
        }
        peer_progress(10);
    }
}

static bool peer_send(na_context_t *context, na_addr_t *to, uint8_t to_id, na_tag_t tag,
                      const void *buf, size_t size, bool expected)
{
    struct peer_send *send = peer_send_get(context);
    na_return_t ret;

    if (size > peer_message)
        size = peer_message;
    memcpy(send->buf, buf, size);
    if (NA_Addr_dup(peer_class, to, &send->to) != NA_SUCCESS)
        return send->in_use = false;
    ret = (expected ? NA_Msg_send_expected
                    : NA_Msg_send_unexpected)(peer_class, context, peer_send_done, send, send->buf,
                                              size, NULL, send->to, to_id, tag, send->op);
    if (ret != NA_SUCCESS)
        peer_send_free(send);
    return ret == NA_SUCCESS;
}

static void peer_send_done(const struct na_cb_info *info)
{
    peer_send_free(info->arg);
}

static void peer_send_free(struct peer_send *send)
{
    NA_Addr_free(peer_class, send->to);
    send->in_use = false;
}

static void peer_reply(const struct peer_call *call, const void *buf, size_t size)
{
    peer_is_answering = true;
    (void) peer_send(call->context, call->from, 0, call->tag, buf, size, true);
    peer_is_answering = false;
}

/* The pieces are registered from the back of the block to its front, so that a wrong order
 * shows. */
static void peer_expose(const struct peer_call *call)
{
    const struct peer_request *request = &call->request;
    struct na_segment segments[256];
    size_t count = request->c == 0 ? 1 : request->c;
    size_t piece = request->b / count;
    uint8_t handle[4096];
    size_t size;

    peer_memory_close();
    peer_bytes_free();
    peer_bytes_size = piece * count;
    peer_bytes =
        peer_is_allocating ? NA_Mem_alloc(peer_class, peer_bytes_size) : malloc(peer_bytes_size);
    for (size_t i = 0; i < peer_bytes_size; i++)
        peer_bytes[i] = (uint8_t) (i * 7 + 3);
    for (size_t i = 0; i < count; i++) {
        segments[i].base = peer_bytes + (count - 1 - i) * piece;
        segments[i].len = piece;
    }
    if (count == 1)
        (void) NA_Mem_handle_create(peer_class, peer_bytes, peer_bytes_size, request->a,
                                    &peer_memory);
    else
        (void) NA_Mem_handle_create_segments(peer_class, segments, count, request->a, &peer_memory);
    if (NA_Mem_register(peer_class, peer_memory, NA_MEM_TYPE_HOST, 0) != NA_SUCCESS)
        return;
    peer_memory_registered = true;
    size = NA_Mem_handle_get_serialize_size(peer_class, peer_memory);
    if (size > sizeof(handle) ||
        NA_Mem_handle_serialize(peer_class, handle, size, peer_memory) != NA_SUCCESS)
        return;
    peer_reply(call, handle, size);
}

static void peer_bytes_free(void)
{
    if (peer_is_allocating)
        NA_Mem_free(peer_class, peer_bytes);
    else
        free(peer_bytes);
    peer_bytes = NULL;
}

static void peer_flood(const struct peer_call *call)
{
    static uint8_t buf[1 << 16];
    size_t size = call->request.b < sizeof(buf) ? call->request.b : sizeof(buf);

    for (uint32_t i = 0; i < call->request.a; i++) {
        memset(buf, (int) (i & 0xff), size);
        if (!peer_send(call->context, call->from, 0, i, buf, size, false))
            return;
        if (call->request.command == PEER_MIX &&
            !peer_send(call->context, call->from, 0, i, buf, size, true))
            return;
    }
}

static void peer_get_loop(const struct peer_call *call)
{
    static uint8_t buf[1 << 20];

    while (peer_transfer_once(call, buf, false, sizeof(buf)) == NA_SUCCESS)
        ;
}

static void peer_transfer(const struct peer_call *call)
{
    size_t length = call->request.b;
    uint8_t *buf = malloc(length);
    uint64_t reply[2] = {0, 0};

    memset(buf, (int) call->request.c, length);
    reply[0] = peer_transfer_once(call, buf, call->request.a != 0, length);
    for (size_t i = 0; i < length; i++)
        reply[1] += buf[i];
    peer_reply(call, reply, sizeof(reply));
    free(buf);
}

/* Transfers between a local buffer and the memory whose handle follows the request. */
static na_return_t peer_transfer_once(const struct peer_call *call, uint8_t *buf, bool put,
                                      size_t length)
{
    na_op_id_t *op = NA_Op_create(peer_class, NA_OP_SINGLE);
    na_mem_handle_t *remote = NULL, *local = NULL;
    na_return_t ret, result = NA_RETURN_MAX;

    ret = NA_Mem_handle_deserialize(peer_class, &remote, call->message + sizeof(call->request),
                                    call->size - sizeof(call->request));
    if (ret != NA_SUCCESS)
        return ret;
    (void) NA_Mem_handle_create(peer_class, buf, length, NA_MEM_READWRITE, &local);
    (void) NA_Mem_register(peer_class, local, NA_MEM_TYPE_HOST, 0);
    ret = (put ? NA_Put : NA_Get)(peer_class, call->context, peer_transfer_done, &result, local, 0,
                                  remote, 0, length, call->from, 0, op);
    while (ret == NA_SUCCESS && result == NA_RETURN_MAX)
        peer_progress(10);
    (void) NA_Mem_deregister(peer_class, local);
    NA_Mem_handle_free(peer_class, local);
    NA_Mem_handle_free(peer_class, remote);
    NA_Op_destroy(peer_class, op);
    return ret == NA_SUCCESS ? result : ret;
}

static void peer_transfer_done(const struct na_cb_info *info)
{
    *(na_return_t *) info->arg = info->ret;
}

static void peer_address(const struct peer_call *call)
{
    uint8_t packed[2048];
    na_addr_t *self;
    size_t size;

    if (NA_Addr_self(peer_class, &self) != NA_SUCCESS)
        return;
    size = NA_Addr_get_serialize_size(peer_class, self);
    if (size <= sizeof(packed) && NA_Addr_serialize(peer_class, packed, size, self) == NA_SUCCESS)
        peer_reply(call, packed, size);
    NA_Addr_free(peer_class, self);
}

static void peer_meet(const struct peer_call *call)
{
    struct peer_request request = {.command = PEER_COUNT, .a = call->request.a};
    na_addr_t *third = NULL;
    uint64_t ret;

    ret = NA_Addr_deserialize(peer_class, &third, call->message + sizeof(call->request),
                              call->size - sizeof(call->request), 0);
    if (ret == NA_SUCCESS) {
        if (!peer_send(call->context, third, 0, 0, &request, sizeof(request), false))
            ret = NA_HOSTUNREACH;
        NA_Addr_free(peer_class, third);
    }
    peer_reply(call, &ret, sizeof(ret));
}

static bool peer_close(void)
{
    bool good = true;

    peer_memory_close();
    for (unsigned int i = 0; i < peer_context_count * PEER_RECEIVES; i++) {
        (void) NA_Cancel(peer_class, peer_receives[i].context, peer_receives[i].op);
        NA_Op_destroy(peer_class, peer_receives[i].op);
    }
    for (int i = 0; i < PEER_SENDS; i++) {
        while (peer_sends[i].in_use) {
            (void) NA_Cancel(peer_class, peer_sends[i].context, peer_sends[i].op);
            peer_progress(10);
        }
        NA_Op_destroy(peer_class, peer_sends[i].op);
    }
    for (int i = 0; i < 10; i++)
        peer_progress(0);
    if (peer_is_allocating)
        peer_bytes_free();
    for (unsigned int i = 0; i < peer_context_count; i++)
        good = NA_Context_destroy(peer_class, peer_contexts[i]) == NA_SUCCESS && good;
    good = good && NA_Finalize(peer_class) == NA_SUCCESS;
    for (unsigned int i = 0; i < peer_context_count * PEER_RECEIVES; i++)
        free(peer_receives[i].buf);
    for (int i = 0; i < PEER_SENDS; i++)
        free(peer_sends[i].buf);
    /* Freed after the class: libfabric's tcp provider still receives the rest of a put that has
     * begun. */
    if (!peer_is_allocating)
        peer_bytes_free(); /* an agent may be a peer again */
    return good;
}

static void peer_memory_close(void)
{
    if (peer_memory == NULL)
        return;
    if (peer_memory_registered)
        (void) NA_Mem_deregister(peer_class, peer_memory);
    peer_memory_registered = false;
    NA_Mem_handle_free(peer_class, peer_memory);
    peer_memory = NULL;
}
