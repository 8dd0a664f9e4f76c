/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks whether an init string works: by messages (RPCs without a response), RPCs, and RPCs
 * whose target moves the origin's memory. */

#include "hg_info/info_check.h"

#include <mercury.h>
#include <mercury_macros.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <na_ext.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"

#define CHECK_SIZE     ((hg_size_t) 1 << 20)
#define CHECK_LIMIT_MS 20000 /* for each step; some devices connect slowly */
#define CHECK_REPEATS  3     /* of each step: some errors occur at the second time only */

enum check_steps {
    CHECK_MESSAGE,
    CHECK_RPC,
    CHECK_PULL,
    CHECK_PUSH,
};

MERCURY_GEN_PROC(check_in_t, ((uint32_t) (what))((hg_bulk_t) (bulk)))
MERCURY_GEN_PROC(check_out_t, ((int32_t) (ret))((uint32_t) (is_right))((uint32_t) (messages)))

/* One side of the check: an endpoint, and the memory that its transfers move. */
struct check_end {
    na_class_t *na_class;
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_id_t id;
    hg_id_t message_id;
    uint32_t messages; /* messages received */
    uint32_t arrived;  /* our messages that the peer has received, by its last response */
    unsigned char *memory;
};

/* A request that the target is handling. */
struct check_request {
    hg_handle_t handle;
    check_in_t in;
    hg_bulk_t bulk;
    unsigned char *memory;
};

/* A call of the origin. */
struct check_call {
    bool is_done;
    hg_return_t ret;
    check_out_t out;
};

static bool check_child(struct check_end *end, const char *init);
static bool check_open(struct check_end *end, const char *init, bool says);
static void check_close(struct check_end *end);
static bool check_peer(struct check_end *end, const char *address, const char *who);
static hg_return_t check_step(struct check_end *end, hg_addr_t peer, uint32_t what);
static hg_return_t check_forward(struct check_end *end, hg_handle_t handle, check_in_t *in);
static hg_return_t check_answered(const struct hg_cb_info *info);
static hg_return_t check_sent(const struct hg_cb_info *info);
static struct check_end *check_end_of(hg_handle_t handle);
static hg_return_t check_count(hg_handle_t handle);
static hg_return_t check_handler(hg_handle_t handle);
static hg_return_t check_begin(struct check_request *request);
static hg_return_t check_moved(const struct hg_cb_info *info);
static void check_respond(struct check_request *request, hg_return_t ret);
static void check_fill(unsigned char *memory, uint32_t what);
static bool check_is_right(const unsigned char *memory, uint32_t what);
static bool check_say(const char *step, const char *who, hg_return_t ret, uint64_t since);
static bool check_lost(const char *who, uint32_t count);

int info_check(const char *init)
{
    char self[TOOL_ADDRESS_SIZE];
    struct check_end end = {0};
    bool works;

    works = check_open(&end, init, true) && tool_endpoint_address(end.hg_class, self, sizeof(self));
    tool_signal_install(); /* a check that hangs while it opens can be interrupted */
    if (works) {
        works = check_peer(&end, self, "itself");
        works = tool_signal_received() == 0 && check_child(&end, init) && works;
    }
    check_close(&end);
    if (tool_signal_received() != 0)
        return tool_signal_exit_code();
    return works ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

int info_check_target(const char *init, int address_fd)
{
    char address[TOOL_ADDRESS_SIZE];
    struct check_end end = {0};
    bool works;

    tool_signal_install();
    works = check_open(&end, init, false) &&
            tool_endpoint_address(end.hg_class, address, sizeof(address)) &&
            tool_target_report(address_fd, address);
    while (works && tool_signal_received() == 0)
        works = tool_endpoint_progress(end.context, 100) == HG_SUCCESS;
    check_close(&end);
    return works ? TOOL_EXIT_OK : TOOL_EXIT_FAILED;
}

/* Checks against a child process, which listens on the same network at another port. */
static bool check_child(struct check_end *end, const char *init)
{
    char *child_init = tool_endpoint_beside_init(init, tool_endpoint_is_node_local(end->na_class));
    const char *const args[] = {"--check", child_init, NULL};
    struct tool_target target = {0};
    bool works;

    if (child_init != NULL && tool_target_start(&target, args, CHECK_LIMIT_MS))
        works = check_peer(end, target.address, "a child");
    else
        works = check_say("start of", "a child", HG_NOENTRY, tool_clock_ns());
    tool_target_stop(&target);
    free(child_init);
    return works;
}

static bool check_open(struct check_end *end, const char *init, bool says)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    char reason[1024] = "";
    na_return_t ret = NA_Initialize_reason(init, true, NA_VERSION(6, 0), NULL, &end->na_class,
                                           reason, sizeof(reason));

    if (ret != NA_SUCCESS) {
        printf("FAILED  open %s: %s\n", init, reason[0] != '\0' ? reason : NA_Error_to_string(ret));
        return false;
    }
    info.na_class = end->na_class;
    end->memory = malloc(CHECK_SIZE);
    end->hg_class = HG_Init_opt2(init, true, HG_VERSION(2, 4), &info);
    end->context = end->hg_class != NULL ? HG_Context_create(end->hg_class) : NULL;
    if (end->memory == NULL || end->context == NULL) {
        printf("FAILED  open %s: it opened, and HG cannot use it; the log says why\n", init);
        return false;
    }
    end->id =
        MERCURY_REGISTER(end->hg_class, "hg_info_check", check_in_t, check_out_t, check_handler);
    end->message_id = MERCURY_REGISTER(end->hg_class, "hg_info_message", void, void, check_count);
    (void) HG_Registered_disable_response(end->hg_class, end->message_id, true);
    (void) HG_Register_data(end->hg_class, end->message_id, end, NULL);
    (void) HG_Register_data(end->hg_class, end->id, end, NULL);
    if (says)
        printf("ok      open %s+%s\n", NA_Get_class_name(end->na_class),
               NA_Get_class_protocol(end->na_class));
    return true;
}

static void check_close(struct check_end *end)
{
    if (end->context != NULL)
        (void) HG_Context_destroy(end->context);
    if (end->hg_class != NULL)
        (void) HG_Finalize(end->hg_class);
    if (end->na_class != NULL)
        (void) NA_Finalize(end->na_class);
    free(end->memory);
}

/* Runs all steps with one peer; a failed step does not end the check. */
static bool check_peer(struct check_end *end, const char *address, const char *who)
{
    static const char *const names[] = {"message to", "RPC to", "pull from", "push to"};
    uint64_t since = tool_clock_ns();
    hg_addr_t peer = HG_ADDR_NULL;
    hg_return_t ret = HG_Addr_lookup2(end->hg_class, address, &peer);
    bool works = true;

    if (ret != HG_SUCCESS)
        return check_say("lookup of", who, ret, since);
    for (uint32_t what = CHECK_MESSAGE; what <= CHECK_PUSH && tool_signal_received() == 0; what++) {
        since = tool_clock_ns();
        for (int i = 0; i < CHECK_REPEATS && (i == 0 || ret == HG_SUCCESS); i++)
            ret = check_step(end, peer, what);
        works = check_say(names[what], who, ret, since) && works;
        /* The messages were sent before the RPCs, whose responses say how many arrived. */
        if (what == CHECK_RPC && ret == HG_SUCCESS && end->arrived < CHECK_REPEATS)
            works = check_lost(who, CHECK_REPEATS - end->arrived);
    }
    (void) HG_Addr_free(end->hg_class, peer);
    return works;
}

/* Runs one step. In two of the steps the target pulls or pushes this side's memory, which has
 * both rights: devices that move any memory move this. */
static hg_return_t check_step(struct check_end *end, hg_addr_t peer, uint32_t what)
{
    check_in_t in = {.what = what, .bulk = HG_BULK_NULL};
    void *memory = end->memory;
    hg_size_t size = CHECK_SIZE;
    hg_handle_t handle = HG_HANDLE_NULL;
    hg_return_t ret = HG_SUCCESS;

    memset(end->memory, 0, CHECK_SIZE);
    if (what == CHECK_PULL)
        check_fill(end->memory, what);
    if (what == CHECK_PULL || what == CHECK_PUSH)
        ret = HG_Bulk_create(end->hg_class, 1, &memory, &size, HG_BULK_READWRITE, &in.bulk);
    if (ret == HG_SUCCESS)
        ret = HG_Create(end->context, peer, what == CHECK_MESSAGE ? end->message_id : end->id,
                        &handle);
    if (ret == HG_SUCCESS)
        ret = check_forward(end, handle, &in);
    if (ret == HG_SUCCESS && what == CHECK_PUSH && !check_is_right(end->memory, what))
        ret = HG_CHECKSUM_ERROR;
    (void) HG_Destroy(handle);
    (void) HG_Bulk_free(in.bulk);
    return ret;
}

static hg_return_t check_forward(struct check_end *end, hg_handle_t handle, check_in_t *in)
{
    uint64_t until = tool_clock_ns() + (uint64_t) CHECK_LIMIT_MS * 1000000;
    struct check_call call = {0};
    bool is_late = false;
    const bool is_message = in->what == CHECK_MESSAGE;
    hg_return_t ret =
        HG_Forward(handle, is_message ? check_sent : check_answered, &call, is_message ? NULL : in);

    while (ret == HG_SUCCESS && !call.is_done) {
        ret = tool_endpoint_progress(end->context, 100);
        if (!is_late && (tool_clock_ns() > until || tool_signal_received() != 0)) {
            is_late = true;
            until = tool_clock_ns() + (uint64_t) CHECK_LIMIT_MS * 1000000;
            (void) HG_Cancel(handle);
        } else if (is_late && tool_clock_ns() > until) {
            printf("FAILED  an RPC was cancelled, and the transport does not end it\n");
            exit(TOOL_EXIT_FAILED);
        }
    }
    if (ret == HG_SUCCESS)
        ret = is_late ? HG_TIMEOUT : call.ret;
    if (ret != HG_SUCCESS || is_message)
        return ret;
    end->arrived = call.out.messages;
    ret = (hg_return_t) call.out.ret;
    return ret == HG_SUCCESS && call.out.is_right == 0 ? HG_CHECKSUM_ERROR : ret;
}

static hg_return_t check_sent(const struct hg_cb_info *info)
{
    struct check_call *call = info->arg;

    call->ret = info->ret;
    call->is_done = true;
    return HG_SUCCESS;
}

static hg_return_t check_answered(const struct hg_cb_info *info)
{
    struct check_call *call = info->arg;
    check_out_t out;

    call->ret = info->ret;
    if (call->ret == HG_SUCCESS)
        call->ret = HG_Get_output(info->info.forward.handle, &out);
    if (call->ret == HG_SUCCESS) {
        call->out = out;
        (void) HG_Free_output(info->info.forward.handle, &out);
    }
    call->is_done = true;
    return HG_SUCCESS;
}

static struct check_end *check_end_of(hg_handle_t handle)
{
    const struct hg_info *info = HG_Get_info(handle);

    return HG_Registered_data(info->hg_class, info->id);
}

static hg_return_t check_count(hg_handle_t handle)
{
    check_end_of(handle)->messages++;
    return HG_Destroy(handle);
}

static hg_return_t check_handler(hg_handle_t handle)
{
    struct check_request *request = calloc(1, sizeof(*request));
    hg_return_t ret;

    if (request == NULL)
        return HG_Destroy(handle);
    request->handle = handle;
    ret = HG_Get_input(handle, &request->in);
    if (ret == HG_SUCCESS && request->in.what != CHECK_RPC)
        ret = check_begin(request);
    if (ret != HG_SUCCESS || request->in.what == CHECK_RPC)
        check_respond(request, ret);
    return HG_SUCCESS;
}

static hg_return_t check_begin(struct check_request *request)
{
    const struct hg_info *info = HG_Get_info(request->handle);
    const bool is_pull = request->in.what == CHECK_PULL;
    hg_size_t size = CHECK_SIZE;
    void *memory;
    hg_return_t ret;

    if (request->in.bulk == HG_BULK_NULL || HG_Bulk_get_size(request->in.bulk) != size)
        return HG_INVALID_ARG;
    memory = request->memory = calloc(1, CHECK_SIZE);
    if (memory == NULL)
        return HG_NOMEM;
    if (!is_pull)
        check_fill(request->memory, CHECK_PUSH);
    ret = HG_Bulk_create(info->hg_class, 1, &memory, &size, HG_BULK_READWRITE, &request->bulk);
    if (ret != HG_SUCCESS)
        return ret;
    return HG_Bulk_transfer(info->context, check_moved, request,
                            is_pull ? HG_BULK_PULL : HG_BULK_PUSH, info->addr, request->in.bulk, 0,
                            request->bulk, 0, size, HG_OP_ID_IGNORE);
}

static hg_return_t check_moved(const struct hg_cb_info *info)
{
    check_respond(info->arg, info->ret);
    return HG_SUCCESS;
}

/* Completes a request. */
static void check_respond(struct check_request *request, hg_return_t ret)
{
    check_out_t out = {
        .ret = (int32_t) ret,
        .is_right = 1,
        .messages = check_end_of(request->handle)->messages,
    };

    if (ret == HG_SUCCESS && request->in.what == CHECK_PULL)
        out.is_right = check_is_right(request->memory, CHECK_PULL);
    (void) HG_Bulk_free(request->bulk);
    free(request->memory);
    (void) HG_Free_input(request->handle, &request->in);
    (void) HG_Respond(request->handle, NULL, NULL, &out);
    (void) HG_Destroy(request->handle);
    free(request);
}

static void check_fill(unsigned char *memory, uint32_t what)
{
    for (hg_size_t i = 0; i < CHECK_SIZE; i++)
        memory[i] = (unsigned char) (i * 7 + i / 251 + what);
}

static bool check_is_right(const unsigned char *memory, uint32_t what)
{
    for (hg_size_t i = 0; i < CHECK_SIZE; i++)
        if (memory[i] != (unsigned char) (i * 7 + i / 251 + what))
            return false;
    return true;
}

/* Prints the result of a step; true if it succeeded. */
static bool check_say(const char *step, const char *who, hg_return_t ret, uint64_t since)
{
    if (ret == HG_SUCCESS)
        printf("ok      %s %s, %.2f ms\n", step, who,
               (double) (tool_clock_ns() - since) / 1e6 / CHECK_REPEATS);
    else
        printf("FAILED  %s %s: %s\n", step, who, HG_Error_to_string(ret));
    (void) fflush(stdout);
    return ret == HG_SUCCESS;
}

/* Reports lost messages. A send completes when the transport has taken the message, so losses are
 * known only later. */
static bool check_lost(const char *who, uint32_t count)
{
    printf("FAILED  message to %s: %u of %d that were sent did not arrive\n", who, count,
           CHECK_REPEATS);
    (void) fflush(stdout);
    return false;
}
