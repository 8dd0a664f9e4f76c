/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer process: opens an endpoint, executes commands, and ends when the socket is closed. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "na_conformance/peer.h"
#include "na_conformance/rma.h"

#define RECEIVES_MAX 64
#define SENDS        32
#define REST_MS      500u

struct receive {
    struct conf_op *op;
    struct conf_buffer buffer;
    uint32_t context;
    bool posted;
};

/* A send in progress; its address is kept until its completion. */
struct sending {
    struct conf_op *op;
    struct conf_buffer buffers[2]; /* unexpected, expected */
    struct na_plugin_addr *to;
    bool in_use;
};

static void serve(int fd);
static bool is_replied_first(uint32_t kind);
static void execute(const struct conf_peer_command *command, struct conf_peer_reply *reply);
static void execute_memory(const struct conf_peer_command *command, struct conf_peer_reply *reply);
static void turn(int fd);
static void listen_with(const struct conf_peer_command *command);
static void receives_check(void);
static void message_arrived(struct receive *receive);
static void message_count(uint32_t context, const uint8_t *payload, uint64_t size);
static void message_echo(struct receive *receive, const uint8_t *payload, uint64_t size);
static void send_many(const struct conf_peer_command *command, bool wait);
static bool send_numbered(const struct conf_peer_command *command, struct na_plugin_addr *to,
                          uint32_t number, bool expected);
static struct sending *sending_get(void);
static void sendings_check(void);
static bool sendings_done(void);
static void get_loop(const struct conf_peer_command *command);
static int peer_close(void);

static struct conf_end end;
static struct receive receives[CONF_CONTEXTS_MAX * RECEIVES_MAX];
static struct sending sendings[SENDS];
static struct conf_peer_command listening;
static struct conf_memory memory;
static uint64_t counts[3], next_numbers[CONF_CONTEXTS_MAX][CONF_STREAMS];
static char last_source[CONF_ADDRESS_SIZE];
static bool sleeps;

int conf_peer_main(int control_fd, int shared_fd, const struct conf_peer_options *options)
{
    const struct conf_open how = {.contexts = options->contexts,
                                  .progress_mode = options->progress_mode};
    struct conf_peer_reply hello = {0};

    conf_is_peer = true;
    conf_shared =
        mmap(NULL, sizeof(*conf_shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    if (conf_shared == MAP_FAILED)
        return 1;
    conf_load();
    conf_open(&end, &how);
    (void) snprintf(hello.text, sizeof(hello.text), "%s", end.address);
    if (send(control_fd, &hello, sizeof(hello), MSG_NOSIGNAL) < 0)
        return 1;
    serve(control_fd);
    return peer_close();
}

static void serve(int fd)
{
    struct conf_peer_command command;
    struct conf_peer_reply reply;

    for (;;) {
        ssize_t got = recv(fd, &command, sizeof(command), MSG_DONTWAIT);

        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return;
        if (got < 0) {
            turn(fd);
            continue;
        }
        memset(&reply, 0, sizeof(reply));
        if (!is_replied_first(command.kind))
            execute(&command, &reply);
        if (send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
            return;
        if (is_replied_first(command.kind))
            execute(&command, &reply);
    }
}

static bool is_replied_first(uint32_t kind)
{
    return kind == CONF_PEER_START || kind == CONF_PEER_NAP || kind == CONF_PEER_GET_LOOP;
}

static void execute(const struct conf_peer_command *command, struct conf_peer_reply *reply)
{
    switch (command->kind) {
    case CONF_PEER_LISTEN:
        listen_with(command);
        break;
    case CONF_PEER_SEND:
    case CONF_PEER_START:
        send_many(command, command->kind == CONF_PEER_SEND);
        break;
    case CONF_PEER_REPORT:
        memcpy(reply->values, counts, sizeof(counts));
        (void) snprintf(reply->text, sizeof(reply->text), "%s", last_source);
        break;
    case CONF_PEER_NAP:
        tool_clock_sleep_ms(command->count);
        break;
    case CONF_PEER_GET_LOOP:
        get_loop(command);
        break;
    case CONF_PEER_SLEEP:
        sleeps = command->count != 0;
        break;
    default:
        execute_memory(command, reply);
    }
}

static void execute_memory(const struct conf_peer_command *command, struct conf_peer_reply *reply)
{
    struct na_plugin_addr *addr;

    switch (command->kind) {
    case CONF_PEER_EXPOSE:
        conf_memory_close(&memory);
        conf_memory_open(&memory, &end, command->size, command->count, command->mode);
        conf_memory_fill(&memory, 0, memory.size, 1);
        reply->handle_size = conf_memory_serialize(&memory, reply->handle, sizeof(reply->handle));
        break;
    case CONF_PEER_HIDE:
        conf_memory_deregister(&memory);
        break;
    case CONF_PEER_FILL:
        conf_memory_fill(&memory, 0, memory.size, command->tag);
        break;
    case CONF_PEER_VERIFY:
        reply->values[0] =
            conf_memory_differs(&memory, command->offset, command->size, command->tag);
        conf_memory_check(&memory);
        break;
    case CONF_PEER_TRANSFER:
        addr = conf_lookup(&end, command->text);
        reply->status =
            conf_memory_exchange(&end, addr, command->handle, command->handle_size, command->size,
                                 command->mode != 0, command->tag, &reply->values[0]);
        conf_addr_free(&end, addr);
        break;
    default:
        reply->status = NA_PLUGIN_INVALID_ARG;
    }
}

/* Pauses after some polls, until there is a command at fd at the latest. */
static void turn(int fd)
{
    static bool is_idle;

    for (int i = 0; i < (is_idle ? 1 : 16); i++) {
        conf_progress();
        receives_check();
        sendings_check();
    }
    if (sleeps)
        conf_sleep(&end, REST_MS);
    else
        is_idle = conf_pause(fd);
}

static void listen_with(const struct conf_peer_command *command)
{
    listening = *command;
    memset(counts, 0, sizeof(counts));
    memset(next_numbers, 0, sizeof(next_numbers));
    for (uint32_t i = 0; i < end.context_count * RECEIVES_MAX; i++) {
        struct receive *receive = &receives[i];

        receive->context = i / RECEIVES_MAX;
        if (i % RECEIVES_MAX >= command->count) {
            if (receive->posted) {
                (void) conf_cancel(&end, receive->context, receive->op);
                conf_wait(receive->op, "a cancelled receive");
                receive->posted = false;
                if (receive->op->status == NA_PLUGIN_SUCCESS)
                    message_arrived(receive);
            }
            continue;
        }
        if (receive->op == NULL) {
            receive->op = conf_op_new(&end);
            conf_buffer_get(&receive->buffer, &end, conf_max_message(&end, false),
                            NA_PLUGIN_BUF_RECV, false);
        }
        if (!receive->posted) {
            receive->posted = true;
            conf_must_recv(&end, receive->context, receive->op, &receive->buffer);
        }
    }
}

/* Handles completed receives in posting order, which is the order of their messages. */
static void receives_check(void)
{
    static uint32_t first[CONF_CONTEXTS_MAX];

    for (uint32_t id = 0; id < end.context_count; id++) {
        for (uint32_t looked = 0; looked < RECEIVES_MAX; looked++) {
            struct receive *receive = &receives[id * RECEIVES_MAX + first[id]];

            if (receive->posted && !conf_op_is_done(receive->op))
                break;
            first[id] = (first[id] + 1) % RECEIVES_MAX;
            if (!receive->posted)
                continue;
            receive->posted = false;
            if (receive->op->status == NA_PLUGIN_SUCCESS)
                message_arrived(receive);
            if (listening.count == 0)
                continue;
            receive->posted = true;
            conf_must_recv(&end, id, receive->op, &receive->buffer);
        }
    }
}

static void message_arrived(struct receive *receive)
{
    const uint64_t header = conf_header(&end, false);
    const uint64_t size = receive->op->size;

    if (size < header) {
        conf_watch_broken(CONF_WATCH_FORM, "a message of %llu bytes is shorter than its header",
                          (unsigned long long) size);
        return;
    }
    conf_addr_string(&end, receive->op->source, last_source, sizeof(last_source));
    if (listening.mode == CONF_PEER_ECHO)
        message_echo(receive, receive->buffer.data + header, size - header);
    else
        message_count(receive->context, receive->buffer.data + header, size - header);
    conf_addr_free(&end, receive->op->source);
}

static void message_count(uint32_t context, const uint8_t *payload, uint64_t size)
{
    uint64_t number, *next;

    counts[0]++;
    if (size < sizeof(number))
        return;
    memcpy(&number, payload, sizeof(number));
    next = &next_numbers[context][(number >> 32) % CONF_STREAMS];
    counts[1] += number < *next;
    *next = number + 1;
    counts[2] += conf_is_filled(payload + sizeof(number), size - sizeof(number), number) >= 0;
}

static void message_echo(struct receive *receive, const uint8_t *payload, uint64_t size)
{
    const uint64_t header = conf_header(&end, true);
    struct sending *sending = sending_get();
    struct na_plugin_addr *to = NULL;

    counts[0]++;
    if (size > conf_max_message(&end, true) - header)
        size = conf_max_message(&end, true) - header;
    memcpy(sending->buffers[1].data + header, payload, size);
    conf_require(conf_plugin.table.addr_dup(end.na_class, receive->op->source, &to) ==
                     NA_PLUGIN_SUCCESS,
                 "addr_dup of a message's source failed");
    sending->to = to;
    if (conf_try_send(&end, receive->context, sending->op, &sending->buffers[1], header + size, to,
                      listening.dest, receive->op->tag, true) == NA_PLUGIN_SUCCESS)
        return;
    conf_addr_free(&end, to); /* the peer that asked is gone, or misses the answer */
    sending->in_use = false;
}

static void send_many(const struct conf_peer_command *command, bool wait)
{
    struct na_plugin_addr *to = conf_lookup(&end, command->text);
    const uint64_t until = conf_now_ms() + 2 * CONF_WAIT_MS;

    conf_require(command->size <= conf_max_payload(&end),
                 "the check wants messages of %llu bytes, and %llu are the most",
                 (unsigned long long) command->size, (unsigned long long) conf_max_payload(&end));
    for (uint32_t i = 0; i < command->count; i++) {
        if (command->mode != CONF_PEER_EXPECTED && !send_numbered(command, to, i, false))
            break;
        if (command->mode != CONF_PEER_UNEXPECTED && !send_numbered(command, to, i, true))
            break;
    }
    while (wait && !sendings_done()) {
        conf_require(conf_now_ms() < until, "sends were not completed in %u ms", 2 * CONF_WAIT_MS);
        turn(-1);
    }
    conf_addr_free(&end, to);
}

static bool send_numbered(const struct conf_peer_command *command, struct na_plugin_addr *to,
                          uint32_t number, bool expected)
{
    const uint64_t header = conf_header(&end, expected), value = number;
    struct sending *sending = sending_get();
    uint8_t *payload = sending->buffers[expected].data + header;
    int32_t status;
    uint32_t tag;

    if (command->size >= sizeof(value)) {
        memcpy(payload, &value, sizeof(value));
        conf_fill(payload + sizeof(value), command->size - sizeof(value), value);
    }
    conf_require(conf_plugin.table.addr_dup(end.na_class, to, &sending->to) == NA_PLUGIN_SUCCESS,
                 "addr_dup failed");
    tag = (uint32_t) ((value + command->tag) % ((uint64_t) end.info.max_tag + 1));
    status = conf_try_send(&end, command->context, sending->op, &sending->buffers[expected],
                           header + command->size, sending->to, command->dest, tag, expected);
    if (status == NA_PLUGIN_SUCCESS)
        return true;
    conf_require(command->kind == CONF_PEER_START, "a message of %llu bytes was refused: %s",
                 (unsigned long long) command->size, conf_status_name(status));
    conf_addr_free(&end, sending->to);
    sending->in_use = false;
    return false;
}

/* Makes progress until one is free. */
static struct sending *sending_get(void)
{
    const uint64_t until = conf_now_ms() + 3 * CONF_WAIT_MS;

    for (;;) {
        for (int i = 0; i < SENDS; i++) {
            struct sending *sending = &sendings[i];

            if (sending->in_use)
                continue;
            if (sending->op == NULL) {
                sending->op = conf_op_new(&end);
                for (int kind = 0; kind < 2; kind++)
                    conf_buffer_get(&sending->buffers[kind], &end,
                                    conf_max_message(&end, kind != 0), NA_PLUGIN_BUF_SEND,
                                    kind != 0);
            }
            sending->in_use = true;
            return sending;
        }
        conf_require(conf_now_ms() < until, "no send was completed in %u ms", 3 * CONF_WAIT_MS);
        conf_progress();
        sendings_check();
    }
}

static void sendings_check(void)
{
    for (int i = 0; i < SENDS; i++) {
        if (!sendings[i].in_use || !conf_op_is_done(sendings[i].op))
            continue;
        conf_addr_free(&end, sendings[i].to);
        sendings[i].in_use = false;
    }
}

static bool sendings_done(void)
{
    for (int i = 0; i < SENDS; i++)
        if (sendings[i].in_use)
            return false;
    return true;
}

static void get_loop(const struct conf_peer_command *command)
{
    struct na_plugin_addr *addr = conf_lookup(&end, command->text);
    uint64_t differs;

    while (conf_memory_exchange(&end, addr, command->handle, command->handle_size, command->size,
                                false, command->tag, &differs) == NA_PLUGIN_SUCCESS)
        ;
    conf_addr_free(&end, addr);
}

static int peer_close(void)
{
    struct conf_peer_command nothing = {.kind = CONF_PEER_LISTEN, .mode = CONF_PEER_COUNT};

    listen_with(&nothing);
    conf_memory_close(&memory);
    conf_stop(&end);
    sendings_check();
    for (uint32_t i = 0; i < end.context_count * RECEIVES_MAX; i++)
        if (receives[i].op != NULL)
            conf_buffer_put(&receives[i].buffer);
    for (int i = 0; i < SENDS; i++) {
        if (sendings[i].op == NULL)
            continue;
        conf_buffer_put(&sendings[i].buffers[0]);
        conf_buffer_put(&sendings[i].buffers[1]);
    }
    conf_destroy(&end);
    conf_unload();
    return 0;
}
