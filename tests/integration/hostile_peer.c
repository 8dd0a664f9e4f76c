/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process that talks to another one through the proxy. It offers one RPC whose bytes both sides
 * know: the input, the bulk data that the target pulls and pushes back, and the output are all
 * derived from a number. On the test's command it calls other processes.
 */
#include "hostile_peer.h"

#include "hostile.h"

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_ext.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>
#include <na_ext.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BULK       3000u
#define TEXT_MAX   128u
#define SEEN_MAX   65536u
#define ATTEMPT_MS 400
#define WAIT_MS    60000
#define TICK_MS    50
#define PACKED_MAX 1024u
#define LINE_SIZE  (2 * PACKED_MAX + 512)

MERCURY_GEN_PROC(work_in_t, ((uint64_t) (number))((hg_const_string_t) (text))((hg_bulk_t) (memory)))
MERCURY_GEN_PROC(work_out_t, ((uint64_t) (number))((hg_const_string_t) (text)))

/* A class and its context. */
struct side {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_id_t work;
};

/* A request whose response has not been sent. */
struct serving {
    hg_handle_t handle;
    work_in_t in;
    hg_bulk_t local;
    uint8_t memory[BULK];
    bool is_pushed;
};

/* An RPC of which this process is the origin. */
struct call {
    uint64_t number;
    bool is_done;
    hg_return_t status;
};

static struct side side;
static struct hostile_tally tally;
static uint64_t seen[SEEN_MAX];
static uint32_t seen_count, serving_count;
static hg_addr_t called = HG_ADDR_NULL;
static char called_at[256];
static uint8_t exposed_memory[BULK];
static hg_bulk_t exposed = HG_BULK_NULL;
static uint64_t refused_before; /* counted by classes that are closed by now */

static hg_return_t work_step(const struct hg_cb_info *info);

static void text_make(char text[TEXT_MAX], const char *what, uint64_t number)
{
    (void) snprintf(text, TEXT_MAX, "%s %llu, %s", what, (unsigned long long) number,
                    HOSTILE_PLAINTEXT);
}

static void memory_make(uint8_t memory[BULK], const char *what, uint64_t number)
{
    char text[TEXT_MAX];

    text_make(text, what, number);
    for (size_t i = 0; i < BULK; i++)
        memory[i] = (uint8_t) text[i % strlen(text)];
}

static void memory_check(const uint8_t memory[BULK], const char *what, uint64_t number)
{
    uint8_t expected[BULK];

    memory_make(expected, what, number);
    tally.wrong += memcmp(memory, expected, BULK) != 0;
}

static void text_check(const char *text, const char *what, uint64_t number)
{
    char expected[TEXT_MAX];

    text_make(expected, what, number);
    tally.wrong += text == NULL || strcmp(text, expected) != 0;
}

static void serving_end(struct serving *serving, bool is_good)
{
    char text[TEXT_MAX];
    work_out_t out = {.number = serving->in.number, .text = text};

    text_make(text, is_good ? "response" : "failure", serving->in.number);
    (void) HG_Respond(serving->handle, NULL, NULL, &out);
    (void) HG_Bulk_free(serving->local);
    (void) HG_Free_input(serving->handle, &serving->in);
    (void) HG_Destroy(serving->handle);
    free(serving);
    serving_count--;
}

static void serving_move(struct serving *serving)
{
    const struct hg_info *info = HG_Get_info(serving->handle);
    const hg_return_t ret = HG_Bulk_transfer(
        info->context, work_step, serving, serving->is_pushed ? HG_BULK_PUSH : HG_BULK_PULL,
        info->addr, serving->in.memory, 0, serving->local, 0, BULK, HG_OP_ID_IGNORE);

    if (ret != HG_SUCCESS)
        serving_end(serving, false);
}

static hg_return_t work_step(const struct hg_cb_info *info)
{
    struct serving *serving = info->arg;

    if (info->ret != HG_SUCCESS || serving->is_pushed) {
        serving_end(serving, info->ret == HG_SUCCESS);
        return HG_SUCCESS;
    }
    memory_check(serving->memory, "pulled", serving->in.number);
    memory_make(serving->memory, "pushed", serving->in.number);
    serving->is_pushed = true;
    serving_move(serving);
    return HG_SUCCESS;
}

static hg_return_t work_handler(hg_handle_t handle)
{
    struct serving *serving = calloc(1, sizeof(*serving));
    void *memory = serving != NULL ? serving->memory : NULL;
    hg_size_t size = BULK;

    if (serving == NULL || HG_Get_input(handle, &serving->in) != HG_SUCCESS) {
        tally.wrong++;
        free(serving);
        return HG_Destroy(handle);
    }
    serving->handle = handle;
    serving_count++;
    tally.handled++;
    text_check(serving->in.text, "request", serving->in.number);
    for (uint32_t i = 0; i < seen_count; i++)
        tally.twice += seen[i] == serving->in.number;
    if (seen_count < SEEN_MAX)
        seen[seen_count++] = serving->in.number;
    if (HG_Bulk_create(HG_Get_info(handle)->hg_class, 1, &memory, &size, HG_BULK_READWRITE,
                       &serving->local) == HG_SUCCESS)
        serving_move(serving);
    else
        serving_end(serving, false);
    return HG_SUCCESS;
}

static bool side_open(struct side *opened, const struct hostile_role *role)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char init[128];

    info.na_init_info.auth_key = role->key;
    info.encrypt = role->encrypts;
    info.mem_per_session = role->has_grants;
    (void) snprintf(init, sizeof(init), "%s://127.0.0.1:0", test_init_string());
    opened->hg_class =
        HG_Init_opt2(init, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
    if (opened->hg_class == NULL)
        return false;
    opened->work = MERCURY_REGISTER(opened->hg_class, "work", work_in_t, work_out_t, work_handler);
    opened->context = HG_Context_create(opened->hg_class);
    return opened->context != NULL;
}

static void side_trigger(const struct side *run)
{
    unsigned int count = 0;

    while (HG_Trigger(run->context, 0, 1, &count) == HG_SUCCESS && count != 0)
        continue;
}

static void side_run(const struct side *run, const bool *is_done, int ms)
{
    const long long end = now_ms() + ms;
    long long left;

    while ((is_done == NULL || !*is_done) && (left = end - now_ms()) > 0) {
        side_trigger(run);
        if (is_done == NULL || !*is_done)
            (void) HG_Progress(run->context, (unsigned int) (left < TICK_MS ? left : TICK_MS));
    }
}

/* Sleeps until there is something to progress, or the test sends a line. */
static void side_idle(const struct side *idle)
{
    struct pollfd polls[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = HG_Event_get_wait_fd(idle->context), .events = POLLIN}};

    side_trigger(idle);
    if (!HG_Event_ready(idle->context))
        (void) poll(polls, 2, polls[1].fd >= 0 ? TICK_MS : 1);
    (void) HG_Progress(idle->context, 0);
    side_trigger(idle);
}

static uint64_t side_refused(const struct side *counted)
{
    static const char *const names[] = {"_refused_key", "_malformed", "_stale"};
    struct na_counter counters[64];
    size_t count = 64;
    uint64_t sum = 0;

    if (NA_Class_get_counters(HG_Class_get_na(counted->hg_class), counters, &count) != NA_SUCCESS)
        return 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
            const size_t length = strlen(counters[i].name), end = strlen(names[k]);

            if (length > end && strcmp(counters[i].name + length - end, names[k]) == 0)
                sum += counters[i].value;
        }
    return sum;
}

static void called_forget(void)
{
    if (called != HG_ADDR_NULL)
        (void) HG_Addr_free(side.hg_class, called);
    called = HG_ADDR_NULL;
    called_at[0] = '\0';
}

/* Waits until no request is being served: its transfer ends with the peer, or fails when the peer
 * sends something. */
static bool side_close(struct side *closed)
{
    called_forget();
    (void) HG_Bulk_free(exposed);
    exposed = HG_BULK_NULL;
    for (int i = 0; i < WAIT_MS / 10 && serving_count != 0; i++)
        side_run(closed, NULL, 10);
    refused_before += side_refused(closed);
    return HG_Context_destroy(closed->context) == HG_SUCCESS &&
           HG_Finalize(closed->hg_class) == HG_SUCCESS;
}

static hg_return_t call_done(const struct hg_cb_info *info)
{
    struct call *call = info->arg;
    work_out_t out;

    call->status = info->ret;
    if (info->ret == HG_SUCCESS)
        call->status = HG_Get_output(info->info.forward.handle, &out);
    if (call->status == HG_SUCCESS) {
        tally.wrong += out.number != call->number;
        if (strncmp(out.text, "failure", 7) == 0)
            call->status = HG_FAULT;
        else
            text_check(out.text, "response", call->number);
        (void) HG_Free_output(info->info.forward.handle, &out);
    }
    call->is_done = true;
    return HG_SUCCESS;
}

/* Calls once. The RPC is cancelled when no response arrives within ATTEMPT_MS. */
static hg_return_t call_to(hg_addr_t addr, struct call *call)
{
    static uint64_t calls;
    uint8_t memory[BULK];
    void *place = memory;
    hg_size_t size = BULK;
    char text[TEXT_MAX];
    work_in_t in = {.text = text};
    hg_handle_t handle;
    hg_return_t ret;

    *call = (struct call){.number = ((uint64_t) getpid() << 32) + ++calls};
    in.number = call->number;
    text_make(text, "request", call->number);
    memory_make(memory, "pulled", call->number);
    ret = HG_Bulk_create(side.hg_class, 1, &place, &size, HG_BULK_READWRITE, &in.memory);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Create(side.context, addr, side.work, &handle);
    if (ret == HG_SUCCESS) {
        ret = HG_Forward(handle, call_done, call, &in);
        if (ret == HG_SUCCESS) {
            side_run(&side, &call->is_done, ATTEMPT_MS);
            if (!call->is_done)
                (void) HG_Cancel(handle);
            side_run(&side, &call->is_done, WAIT_MS);
            ret = call->is_done ? call->status : HG_TIMEOUT;
        }
        (void) HG_Destroy(handle);
    }
    (void) HG_Bulk_free(in.memory);
    if (ret == HG_SUCCESS)
        memory_check(memory, "pushed", call->number);
    return ret;
}

/* Looks the address up if it differs from the last one, or if the line begins with '+'. */
static hg_return_t call_at(const char *line)
{
    const bool is_new = line[0] == '+';
    const char *address = line + is_new;
    struct call call;
    hg_return_t ret;

    if (is_new || strcmp(called_at, address) != 0)
        called_forget();
    if (called == HG_ADDR_NULL) {
        ret = HG_Addr_lookup2(side.hg_class, address, &called);
        if (ret != HG_SUCCESS)
            return ret;
        (void) snprintf(called_at, sizeof(called_at), "%s", address);
    }
    return call_to(called, &call);
}

/* Exposes the same memory each time, and prints its serialized descriptor as text. */
static void expose(void)
{
    void *place = exposed_memory;
    hg_size_t size = BULK, packed_size;
    uint8_t packed[PACKED_MAX];

    memory_make(exposed_memory, "exposed", 0);
    if (HG_Bulk_create(side.hg_class, 1, &place, &size, HG_BULK_READWRITE, &exposed) != HG_SUCCESS)
        return;
    packed_size = HG_Bulk_get_serialize_size(exposed, 0);
    if (packed_size <= sizeof(packed) &&
        HG_Bulk_serialize(packed, packed_size, 0, exposed) == HG_SUCCESS)
        for (hg_size_t i = 0; i < packed_size; i++)
            printf("%02x", packed[i]);
    printf("\n");
}

static hg_return_t grant(const char *address)
{
    hg_addr_t addr;
    hg_return_t ret = HG_Addr_lookup2(side.hg_class, address, &addr);

    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_grant(exposed, addr);
    (void) HG_Addr_free(side.hg_class, addr);
    return ret;
}

static hg_return_t take_done(const struct hg_cb_info *info)
{
    struct call *call = info->arg;

    call->status = info->ret;
    call->is_done = true;
    return HG_SUCCESS;
}

/* Pulls the exposed memory of another process, given its descriptor. */
static hg_return_t take_from(hg_addr_t addr, hg_bulk_t remote)
{
    uint8_t memory[BULK] = {0};
    void *place = memory;
    hg_size_t size = BULK;
    struct call call = {0};
    hg_bulk_t local;
    hg_return_t ret;

    ret = HG_Bulk_create(side.hg_class, 1, &place, &size, HG_BULK_READWRITE, &local);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_transfer(side.context, take_done, &call, HG_BULK_PULL, addr, remote, 0, local, 0,
                           BULK, HG_OP_ID_IGNORE);
    if (ret == HG_SUCCESS) {
        side_run(&side, &call.is_done, WAIT_MS);
        ret = call.is_done ? call.status : HG_TIMEOUT;
    }
    (void) HG_Bulk_free(local);
    if (ret == HG_SUCCESS)
        memory_check(memory, "exposed", 0);
    return ret;
}

/* The line is "DESCRIPTOR ADDRESS". */
static hg_return_t take(const char *line)
{
    uint8_t packed[PACKED_MAX];
    hg_size_t size = 0;
    hg_bulk_t remote;
    hg_addr_t addr;
    unsigned int byte;
    hg_return_t ret;

    for (; *line != ' ' && size < sizeof(packed) && sscanf(line, "%2x", &byte) == 1; line += 2)
        packed[size++] = (uint8_t) byte;
    ret = HG_Bulk_deserialize(side.hg_class, &remote, packed, size);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Addr_lookup2(side.hg_class, line + 1, &addr);
    if (ret == HG_SUCCESS) {
        ret = take_from(addr, remote);
        (void) HG_Addr_free(side.hg_class, addr);
    }
    (void) HG_Bulk_free(remote);
    return ret;
}

static bool address_print(void)
{
    char text[256];
    hg_size_t size = sizeof(text);
    hg_addr_t self;

    if (HG_Addr_self(side.hg_class, &self) != HG_SUCCESS)
        return false;
    if (HG_Addr_to_string(side.hg_class, text, &size, self) == HG_SUCCESS)
        printf("%s\n", text);
    (void) HG_Addr_free(side.hg_class, self);
    return fflush(stdout) == 0;
}

/* Opens a new class, with which no peer has a session. The key is stretched once. */
static bool side_renew(const struct hostile_role *role)
{
    struct side next;

    if (!side_open(&next, role) || !side_close(&side))
        return false;
    side = next;
    return address_print();
}

static void command(const char *line, const struct hostile_role *role)
{
    if (strcmp(line, "renew") == 0) {
        if (!side_renew(role))
            exit(2);
    } else if (strcmp(line, "expose") == 0) {
        expose();
    } else if (strncmp(line, "grant ", 6) == 0) {
        printf("%s\n", HG_Error_to_string(grant(line + 6)));
    } else if (strncmp(line, "take ", 5) == 0) {
        printf("%s\n", HG_Error_to_string(take(line + 5)));
    } else if (strcmp(line, "tally") == 0) {
        side_run(&side, NULL, 5); /* handles what has already arrived */
        printf("%llu %llu %llu %llu\n", (unsigned long long) (refused_before + side_refused(&side)),
               tally.handled, tally.wrong, tally.twice);
    } else {
        printf("%s\n", HG_Error_to_string(call_at(line)));
    }
    (void) fflush(stdout);
}

int hostile_peer_main(int argc, char **argv)
{
    struct hostile_role role;
    char line[LINE_SIZE];

    if (argc != 6)
        return 4;
    role = (struct hostile_role){.port = (uint16_t) atoi(argv[1]),
                                 .number = (uint32_t) atoi(argv[2]),
                                 .key = argv[3][0] != '\0' ? argv[3] : NULL,
                                 .encrypts = argv[4][0] == '1',
                                 .has_grants = argv[5][0] == '1'};
    hostile_lead(role.port, role.number);
    if (!side_open(&side, &role) || !address_print())
        return 1;
    for (;;) {
        side_idle(&side);
        if (!child_is_told())
            continue;
        if (!child_hear(line, sizeof(line)) || strcmp(line, "quit") == 0)
            break;
        command(line, &role);
    }
    return side_close(&side) ? 0 : 3;
}
