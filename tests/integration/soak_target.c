/* SPDX-License-Identifier: BSD-3-Clause */
/* The target of the soak: answers requests at once or later, transfers the origin's memory, exposes
 * its own. */
#include "soak.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A request whose response is delayed. */
struct held {
    hg_handle_t handle;
    struct soak_data out;
    long long due_ms;
};

struct target {
    hg_class_t *hg_class;
    hg_context_t *context;
    struct soak_ids ids;
    uint64_t generation;
    uint64_t places;
    unsigned char *source;
    unsigned char *sink;
    hg_bulk_t source_bulk;
    hg_bulk_t sink_bulk;
    struct held held[SOAK_HOLD_MAX];
    unsigned int moves; /* in progress */
};

/* An RPC whose target transfers the origin's memory. */
struct move {
    struct target *target;
    hg_handle_t handle;
    soak_move_in_t in;
    hg_bulk_t local;
};

static bool target_open(struct target *target, const char *init_string);
static bool target_expose(struct target *target, unsigned char **memory, hg_size_t size,
                          uint8_t flags, hg_bulk_t *bulk);
static bool target_print_address(const struct target *target);
static void target_serve(struct target *target, bool is_ending);
static bool target_is_asked_to_end(void);
static int target_close(struct target *target, int descriptors);
static struct target *target_of(hg_handle_t handle);
static hg_return_t handle_echo(hg_handle_t handle);
static void answer_held(struct target *target, bool all);
static hg_return_t handle_expose(hg_handle_t handle);
static hg_return_t handle_check(hg_handle_t handle);
static hg_return_t handle_move(hg_handle_t handle);
static hg_return_t move_start(struct move *move);
static hg_return_t move_done(const struct hg_cb_info *info);
static void move_end(struct move *move, hg_return_t status);

int soak_target_main(const char *init_string, uint64_t generation, uint64_t places)
{
    struct target *target = calloc(1, sizeof(*target));
    const int descriptors = soak_descriptors_at_rest(init_string);
    int code;

    if (target == NULL)
        return 1;
    target->generation = generation;
    target->places = places;
    if (!target_open(target, init_string) || !target_print_address(target)) {
        free(target);
        return 1;
    }
    while (!target_is_asked_to_end())
        target_serve(target, false);
    code = target_close(target, descriptors);
    free(target);
    return code;
}

static bool target_open(struct target *target, const char *init_string)
{
    target->hg_class = HG_Init(init_string, true);
    if (target->hg_class == NULL)
        return false;
    target->context = HG_Context_create(target->hg_class);
    if (target->context == NULL)
        return false;
    (void) HG_Class_set_data(target->hg_class, target, NULL);
    (void) HG_Class_set_default_deadline(target->hg_class, 3000);
    (void) HG_Class_set_overflow_timeout(target->hg_class, 3000);
    target->ids.echo = HG_Register_name(target->hg_class, "soak_echo", soak_proc_data,
                                        soak_proc_data, handle_echo);
    target->ids.expose =
        MERCURY_REGISTER(target->hg_class, "soak_expose", void, soak_expose_t, handle_expose);
    target->ids.check = MERCURY_REGISTER(target->hg_class, "soak_check", soak_check_in_t,
                                         soak_check_out_t, handle_check);
    target->ids.move = MERCURY_REGISTER(target->hg_class, "soak_move", soak_move_in_t,
                                        soak_move_out_t, handle_move);
    if (!target_expose(target, &target->source, SOAK_SOURCE, HG_BULK_READ_ONLY,
                       &target->source_bulk) ||
        !target_expose(target, &target->sink, target->places * SOAK_BULK_MAX, HG_BULK_READWRITE,
                       &target->sink_bulk))
        return false;
    soak_fill_source(target->source, target->generation);
    return true;
}

static bool target_expose(struct target *target, unsigned char **memory, hg_size_t size,
                          uint8_t flags, hg_bulk_t *bulk)
{
    void *buffer = *memory = calloc(1, (size_t) size);

    return buffer != NULL &&
           HG_Bulk_create(target->hg_class, 1, &buffer, &size, flags, bulk) == HG_SUCCESS;
}

static bool target_print_address(const struct target *target)
{
    char text[256];
    hg_size_t size = sizeof(text);
    hg_addr_t self;
    bool ok;

    if (HG_Addr_self(target->hg_class, &self) != HG_SUCCESS)
        return false;
    ok = HG_Addr_to_string(target->hg_class, text, &size, self) == HG_SUCCESS;
    (void) HG_Addr_free(target->hg_class, self);
    if (ok)
        printf("%s\n", text);
    (void) fflush(stdout);
    return ok;
}

static void target_serve(struct target *target, bool is_ending)
{
    unsigned int count;

    do {
        count = 0;
        (void) HG_Trigger(target->context, 0, 32, &count);
    } while (count > 0);
    answer_held(target, is_ending);
    (void) HG_Progress(target->context, 1);
}

static bool target_is_asked_to_end(void)
{
    static unsigned int calls;
    struct pollfd poller = {.fd = STDIN_FILENO, .events = POLLIN};

    return ++calls % 32 == 0 && poll(&poller, 1, 0) > 0;
}

/* Everything has to end without help within the time; after that nothing may be left. */
static int target_close(struct target *target, int descriptors)
{
    const long long end = now_ms() + 60000;
    struct hg_diag_counters counters = {0};
    hg_return_t context, hg_class;

    do {
        target_serve(target, true);
        (void) HG_Class_get_counters(target->hg_class, &counters);
    } while (now_ms() < end && (target->moves > 0 || counters.rpc_req_recv_active_count > 0));
    (void) HG_Bulk_free(target->source_bulk);
    (void) HG_Bulk_free(target->sink_bulk);
    context = HG_Context_destroy(target->context);
    hg_class = HG_Finalize(target->hg_class);
    free(target->source);
    free(target->sink);
    if (context == HG_SUCCESS && hg_class == HG_SUCCESS && target->moves == 0 &&
        counters.rpc_req_recv_active_count == 0 && soak_descriptors() <= descriptors)
        return 0;
    (void) fprintf(stderr,
                   "target: %u moves, %llu requests left; context %s, class %s, descriptors %d of "
                   "%d\n",
                   target->moves, (unsigned long long) counters.rpc_req_recv_active_count,
                   HG_Error_to_string(context), HG_Error_to_string(hg_class), soak_descriptors(),
                   descriptors);
    return 2;
}

static struct target *target_of(hg_handle_t handle)
{
    return HG_Class_get_data(HG_Get_info(handle)->hg_class);
}

static hg_return_t handle_echo(hg_handle_t handle)
{
    struct target *target = target_of(handle);
    struct soak_data in, out;
    uint32_t hold_ms;

    if (HG_Get_input(handle, &in) != HG_SUCCESS)
        return HG_Destroy(handle);
    out = (struct soak_data){.number = in.number, .size = in.reply_size};
    if (out.size > SOAK_PAYLOAD)
        out.size = 0;
    out.is_wrong = soak_digest(in.bytes, in.size) != in.digest;
    out.bytes = (void *) (uintptr_t) soak_bytes(in.number + 1, out.size);
    out.digest = soak_digest(out.bytes, out.size);
    hold_ms = in.hold_ms;
    (void) HG_Free_input(handle, &in);
    for (int i = 0; i < SOAK_HOLD_MAX && hold_ms > 0; i++) {
        struct held *held = &target->held[i];

        if (held->handle == HG_HANDLE_NULL) {
            *held = (struct held){.handle = handle, .out = out, .due_ms = now_ms() + hold_ms};
            return HG_SUCCESS;
        }
    }
    (void) HG_Respond(handle, NULL, NULL, &out);
    return HG_Destroy(handle);
}

static void answer_held(struct target *target, bool all)
{
    const long long now = now_ms();

    for (int i = 0; i < SOAK_HOLD_MAX; i++) {
        struct held *held = &target->held[i];

        if (held->handle == HG_HANDLE_NULL || (!all && held->due_ms > now))
            continue;
        (void) HG_Respond(held->handle, NULL, NULL, &held->out);
        (void) HG_Destroy(held->handle);
        held->handle = HG_HANDLE_NULL;
    }
}

static hg_return_t handle_expose(hg_handle_t handle)
{
    const struct target *target = target_of(handle);
    soak_expose_t out = {
        .generation = target->generation, .source = target->source_bulk, .sink = target->sink_bulk};

    (void) HG_Respond(handle, NULL, NULL, &out);
    return HG_Destroy(handle);
}

static hg_return_t handle_check(hg_handle_t handle)
{
    const struct target *target = target_of(handle);
    soak_check_out_t out = {.generation = target->generation};
    soak_check_in_t in;

    if (HG_Get_input(handle, &in) == HG_SUCCESS) {
        if (in.size <= SOAK_BULK_MAX && in.offset <= (target->places - 1) * SOAK_BULK_MAX)
            out.digest = soak_digest(target->sink + in.offset, in.size);
        (void) HG_Free_input(handle, &in);
        (void) HG_Respond(handle, NULL, NULL, &out);
    }
    return HG_Destroy(handle);
}

static hg_return_t handle_move(hg_handle_t handle)
{
    struct move *move = calloc(1, sizeof(*move));
    hg_return_t ret;

    if (move == NULL)
        return HG_Destroy(handle);
    move->target = target_of(handle);
    move->handle = handle;
    if (HG_Get_input(handle, &move->in) != HG_SUCCESS) {
        free(move);
        return HG_Destroy(handle);
    }
    move->target->moves++;
    ret = move_start(move);
    if (ret != HG_SUCCESS)
        move_end(move, ret);
    return HG_SUCCESS;
}

static hg_return_t move_start(struct move *move)
{
    const struct hg_info *info = HG_Get_info(move->handle);
    hg_size_t size = HG_Bulk_get_size(move->in.memory);
    void *buffer = NULL;
    hg_return_t ret;

    if (size > SOAK_BULK_MAX)
        return HG_MSGSIZE;
    ret = HG_Bulk_create(info->hg_class, 1, NULL, &size, HG_BULK_READWRITE, &move->local);
    if (ret != HG_SUCCESS)
        return ret;
    ret = HG_Bulk_access(move->local, 0, size, HG_BULK_READWRITE, 1, &buffer, &size, NULL);
    if (ret != HG_SUCCESS)
        return ret;
    if (!move->in.pull)
        memcpy(buffer, soak_bytes(move->in.number, size), (size_t) size);
    return HG_Bulk_transfer(info->context, move_done, move,
                            move->in.pull ? HG_BULK_PULL : HG_BULK_PUSH, info->addr,
                            move->in.memory, 0, move->local, 0, size, HG_OP_ID_IGNORE);
}

static hg_return_t move_done(const struct hg_cb_info *info)
{
    move_end(info->arg, info->ret);
    return HG_SUCCESS;
}

static void move_end(struct move *move, hg_return_t status)
{
    soak_move_out_t out = {.status = (int32_t) status};
    hg_size_t size = HG_Bulk_get_size(move->in.memory);
    void *buffer = NULL;

    if (status == HG_SUCCESS && HG_Bulk_access(move->local, 0, size, HG_BULK_READWRITE, 1, &buffer,
                                               &size, NULL) == HG_SUCCESS)
        out.digest = soak_digest(buffer, size);
    (void) HG_Respond(move->handle, NULL, NULL, &out);
    (void) HG_Bulk_free(move->local);
    (void) HG_Free_input(move->handle, &move->in);
    (void) HG_Destroy(move->handle);
    move->target->moves--;
    free(move);
}
