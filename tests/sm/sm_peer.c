/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The other process of the tests: opens an endpoint, prints its address and does what it is asked
 * to (enum sm_command) until its standard input ends.
 * Usage: sm_peer INIT [busy|plain|undumpable|idle]
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PEER_RECEIVES 32
#define PEER_SENDS    64

struct peer_receive {
    na_op_id_t *op;
    uint8_t *buf;
    size_t size;
};

struct peer_send {
    na_op_id_t *op;
    uint8_t *buf;
    bool in_use;
};

static bool peer_open(const char *init_string, const char *option);
static void peer_post(struct peer_receive *receive);
static void peer_received(const struct na_cb_info *info);
static void peer_serve(const void *message, size_t size, na_addr_t *from, na_tag_t tag);
static void peer_progress(unsigned int ms);
static struct peer_send *peer_send_get(void);
static void peer_send_done(const struct na_cb_info *info);
static void peer_reply(na_addr_t *to, na_tag_t tag, const void *buf, size_t size);
static void peer_expose(const struct sm_request *request, na_addr_t *from, na_tag_t tag);
static void peer_flood(const struct sm_request *request, na_addr_t *to);
static void peer_get_loop(const void *handle, size_t size, na_addr_t *from);
static void peer_get_done(const struct na_cb_info *info);
static bool peer_close(void);

static na_class_t *peer_class;
static na_context_t *peer_context;
static size_t peer_message;
static struct peer_receive peer_receives[PEER_RECEIVES];
static struct peer_send peer_sends[PEER_SENDS];
static na_mem_handle_t *peer_memory;
static uint8_t *peer_bytes;
static size_t peer_bytes_size;
static uint64_t peer_counts[2];
static bool peer_stop;

int main(int argc, char **argv)
{
    const char *option = argc > 2 ? argv[2] : "plain";
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    char address[128];
    size_t size = sizeof(address);
    na_addr_t *self = NULL;

    if (argc < 2 || !peer_open(argv[1], option))
        return 1;
    if (NA_Addr_self(peer_class, &self) != NA_SUCCESS ||
        NA_Addr_to_string(peer_class, address, &size, self) != NA_SUCCESS)
        return 1;
    NA_Addr_free(peer_class, self);
    (void) printf("%s\n", address);
    (void) fflush(stdout);
    while (!peer_stop) {
        if (strcmp(option, "busy") != 0)
            peer_progress(strcmp(option, "idle") == 0 ? 1000 : 50);
        else
            for (int i = 0; i < 1000; i++)
                peer_progress(0);
        if (poll(&input, 1, 0) != 0)
            break;
    }
    return peer_close() ? 0 : 1;
}

static bool peer_open(const char *init_string, const char *option)
{
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;

    if (strcmp(option, "busy") == 0)
        info.progress_mode = NA_NO_BLOCK;
    peer_class = NA_Initialize_opt2(init_string, true, NA_VERSION(6, 0), &info);
    if (peer_class == NULL)
        return false;
    peer_context = NA_Context_create(peer_class);
    peer_message = NA_Msg_get_max_unexpected_size(peer_class);
    if (strcmp(option, "undumpable") == 0 && prctl(PR_SET_DUMPABLE, 0) != 0)
        return false;
    for (int i = 0; i < PEER_RECEIVES; i++) {
        peer_receives[i].op = NA_Op_create(peer_class, NA_OP_SINGLE);
        peer_receives[i].buf = malloc(peer_message);
        peer_post(&peer_receives[i]);
    }
    for (int i = 0; i < PEER_SENDS; i++) {
        peer_sends[i].op = NA_Op_create(peer_class, NA_OP_SINGLE);
        peer_sends[i].buf = malloc(peer_message);
    }
    return true;
}

static void peer_post(struct peer_receive *receive)
{
    (void) NA_Msg_recv_unexpected(peer_class, peer_context, peer_received, receive, receive->buf,
                                  peer_message, NULL, receive->op);
}

static void peer_received(const struct na_cb_info *info)
{
    struct peer_receive *receive = info->arg;
    na_addr_t *source = info->info.recv_unexpected.source;

    if (info->ret != NA_SUCCESS)
        return;
    peer_serve(receive->buf, info->info.recv_unexpected.actual_buf_size, source,
               info->info.recv_unexpected.tag);
    NA_Addr_free(peer_class, source);
    peer_post(receive);
}

static void peer_serve(const void *message, size_t size, na_addr_t *from, na_tag_t tag)
{
    struct sm_request request = {.command = SM_ECHO};
    uint64_t sum = 0;

    if (size >= sizeof(request))
        memcpy(&request, message, sizeof(request));
    switch (request.command) {
    case SM_COUNT:
        peer_counts[1] += request.a != (uint32_t) peer_counts[0];
        peer_counts[0]++;
        break;
    case SM_REPORT:
        peer_reply(from, tag, peer_counts, sizeof(peer_counts));
        break;
    case SM_EXPOSE:
        peer_expose(&request, from, tag);
        break;
    case SM_CHECK:
        for (size_t i = 0; i < peer_bytes_size; i++)
            sum += peer_bytes[i];
        peer_reply(from, tag, &sum, sizeof(sum));
        break;
    case SM_HIDE:
        (void) NA_Mem_deregister(peer_class, peer_memory);
        peer_reply(from, tag, message, size);
        break;
    case SM_NAP:
        (void) usleep(request.a * 1000);
        break;
    case SM_FLOOD:
        peer_flood(&request, from);
        break;
    case SM_GET_LOOP:
        peer_get_loop((const uint8_t *) message + sizeof(request), size - sizeof(request), from);
        break;
    default:
        peer_reply(from, tag, message, size);
    }
}

static void peer_progress(unsigned int ms)
{
    unsigned int count = 0;

    (void) NA_Poll_wait(peer_class, peer_context, ms, &count);
    if (count != 0)
        (void) NA_Trigger(peer_context, 64, NULL);
}

static struct peer_send *peer_send_get(void)
{
    for (;;) {
        for (int i = 0; i < PEER_SENDS; i++) {
            if (!peer_sends[i].in_use) {
                peer_sends[i].in_use = true;
                return &peer_sends[i];
            }
        }
        peer_progress(10);
    }
}

static void peer_send_done(const struct na_cb_info *info)
{
    struct peer_send *send = info->arg;

    send->in_use = false;
}

static void peer_reply(na_addr_t *to, na_tag_t tag, const void *buf, size_t size)
{
    struct peer_send *send = peer_send_get();

    memcpy(send->buf, buf, size);
    if (NA_Msg_send_expected(peer_class, peer_context, peer_send_done, send, send->buf, size, NULL,
                             to, 0, tag, send->op) != NA_SUCCESS)
        send->in_use = false;
}

/* The pieces are in turn from the back of the block to its front, so that their order matters. */
static void peer_expose(const struct sm_request *request, na_addr_t *from, na_tag_t tag)
{
    struct na_segment segments[256];
    size_t count = request->c == 0 ? 1 : request->c;
    size_t piece = request->b / count;
    uint8_t handle[4096];
    size_t size;

    if (peer_memory != NULL) {
        (void) NA_Mem_deregister(peer_class, peer_memory);
        NA_Mem_handle_free(peer_class, peer_memory);
        free(peer_bytes);
    }
    peer_bytes_size = piece * count;
    peer_bytes = malloc(peer_bytes_size);
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
    (void) NA_Mem_register(peer_class, peer_memory, NA_MEM_TYPE_HOST, 0);
    size = NA_Mem_handle_get_serialize_size(peer_class, peer_memory);
    (void) NA_Mem_handle_serialize(peer_class, handle, size, peer_memory);
    peer_reply(from, tag, handle, size);
}

static void peer_flood(const struct sm_request *request, na_addr_t *to)
{
    for (uint32_t i = 0; i < request->a; i++) {
        struct peer_send *send = peer_send_get();

        memset(send->buf, (int) (i & 0xff), request->b);
        if (NA_Msg_send_unexpected(peer_class, peer_context, peer_send_done, send, send->buf,
                                   request->b, NULL, to, 0, i, send->op) != NA_SUCCESS) {
            send->in_use = false;
            return;
        }
    }
}

static void peer_get_loop(const void *handle, size_t size, na_addr_t *from)
{
    na_op_id_t *op = NA_Op_create(peer_class, NA_OP_SINGLE);
    na_mem_handle_t *remote = NULL, *local = NULL;
    static uint8_t buf[1 << 20];
    bool done;

    if (NA_Mem_handle_deserialize(peer_class, &remote, handle, size) != NA_SUCCESS)
        return;
    (void) NA_Mem_handle_create(peer_class, buf, sizeof(buf), NA_MEM_READWRITE, &local);
    (void) NA_Mem_register(peer_class, local, NA_MEM_TYPE_HOST, 0);
    for (;;) {
        done = false;
        if (NA_Get(peer_class, peer_context, peer_get_done, &done, local, 0, remote, 0, sizeof(buf),
                   from, 0, op) != NA_SUCCESS)
            return;
        while (!done)
            peer_progress(10);
    }
}

static void peer_get_done(const struct na_cb_info *info)
{
    *(bool *) info->arg = true;
}

static bool peer_close(void)
{
    if (peer_memory != NULL) {
        (void) NA_Mem_deregister(peer_class, peer_memory);
        NA_Mem_handle_free(peer_class, peer_memory);
        free(peer_bytes);
    }
    for (int i = 0; i < PEER_RECEIVES; i++) {
        (void) NA_Cancel(peer_class, peer_context, peer_receives[i].op);
        NA_Op_destroy(peer_class, peer_receives[i].op);
    }
    for (int i = 0; i < PEER_SENDS; i++) {
        while (peer_sends[i].in_use && !peer_stop) {
            (void) NA_Cancel(peer_class, peer_context, peer_sends[i].op);
            peer_progress(10);
        }
        NA_Op_destroy(peer_class, peer_sends[i].op);
    }
    for (int i = 0; i < 10; i++)
        peer_progress(0);
    if (NA_Context_destroy(peer_class, peer_context) != NA_SUCCESS ||
        NA_Finalize(peer_class) != NA_SUCCESS)
        return false;
    for (int i = 0; i < PEER_RECEIVES; i++)
        free(peer_receives[i].buf);
    for (int i = 0; i < PEER_SENDS; i++)
        free(peer_sends[i].buf);
    return true;
}
