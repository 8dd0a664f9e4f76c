/* SPDX-License-Identifier: BSD-3-Clause */
/* The target: answers the RPCs, drives the sessions of all origins, and waits for the transport
 * and for the sessions' writing threads at the same time. */

#include "hg_cp/cp_target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_endpoint.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "hg_cp/cp_file.h"
#include "hg_cp/cp_protocol.h"
#include "hg_cp/cp_session.h"

/* Maximum number of concurrent copies; longest sleep; time to cancel copies at the end. */
#define SESSIONS_MAX 64
#define SLEEP_MS     200
#define ABORT_MS     2000U

struct cp_target {
    const struct cp_options *options;
    struct cp_session_options session_options;
    hg_class_t *hg_class;
    hg_context_t *context;
    struct cp_session *sessions[SESSIONS_MAX];
};

static bool target_open(struct cp_target *target);
static void target_clean(const struct cp_target *target);
static void target_close(struct cp_target *target);
static bool target_report(const struct cp_target *target);
static bool target_write_address_file(const char *path, const char *address);
static hg_return_t target_progress(struct cp_target *target);
static hg_return_t target_wait(struct cp_target *target, int hg_fd);
static void target_drive_sessions(struct cp_target *target);
static void target_note_end(const struct cp_target *target, const struct cp_session *session);
static hg_return_t target_opened(hg_handle_t handle);
static hg_return_t target_pulled(hg_handle_t handle);
static hg_return_t target_closed(hg_handle_t handle);
static struct cp_session **target_free_slot(struct cp_target *target);
static struct cp_session **target_find(struct cp_target *target, hg_handle_t handle, uint64_t id);
static struct cp_target *target_of(hg_handle_t handle);
static hg_return_t target_bad_input(hg_handle_t handle, hg_return_t ret);

int cp_target_run(const struct cp_options *options)
{
    struct cp_target target = {.options = options};
    hg_return_t ret = HG_SUCCESS;
    bool served;

    served = target_open(&target);
    if (served)
        target_clean(&target);
    served = served && target_report(&target);
    while (served && tool_signal_received() == 0 && ret == HG_SUCCESS) {
        ret = target_progress(&target);
        target_drive_sessions(&target);
    }
    if (ret != HG_SUCCESS)
        tool_error("the target stops: no progress: %s", HG_Error_to_string(ret));
    target_close(&target);
    if (!served || ret != HG_SUCCESS)
        return TOOL_EXIT_FAILED;
    return tool_signal_exit_code();
}

static bool target_open(struct cp_target *target)
{
    const struct cp_options *options = target->options;
    struct cp_session_options *session = &target->session_options;
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    struct cp_rpc_ids ids;

    info.na_init_info.auth_key = options->key;
    info.encrypt = options->encrypt;
    session->depth = options->depth;
    session->block_size = options->block_size;
    session->force = options->force;
    session->sync = options->sync;
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    session->dir_fd = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (session->dir_fd < 0) {
        tool_error("cannot use '%s' for files: %s", options->dir, strerror(errno));
        return false;
    }
    if (session->wake_fd < 0) {
        tool_error("cannot make an eventfd: %s", strerror(errno));
        return false;
    }
    target->hg_class = tool_endpoint_open(options->init, true, &info);
    if (target->hg_class == NULL ||
        !cp_protocol_register(target->hg_class, target_opened, target_pulled, target_closed,
                              &ids) ||
        HG_Class_set_data(target->hg_class, target, NULL) != HG_SUCCESS)
        return false;
    target->context = HG_Context_create(target->hg_class);
    if (target->context == NULL)
        tool_error("cannot create a context; see the line before");
    return target->context != NULL;
}

/* Removes incomplete files that killed targets left behind. */
static void target_clean(const struct cp_target *target)
{
    unsigned int removed = cp_file_remove_stale(target->session_options.dir_fd);

    if (removed > 0 && !target->options->quiet)
        tool_note("removed %u incomplete file%s that killed targets left in '%s'", removed,
                  removed == 1 ? "" : "s", target->options->dir);
}

/* Aborts the copies in progress, and removes their incomplete files. */
static void target_close(struct cp_target *target)
{
    uint64_t end = tool_clock_ns() + (uint64_t) ABORT_MS * 1000000;
    bool waiting = target->context != NULL;

    for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
        if (target->sessions[i] != NULL)
            cp_session_abort(target->sessions[i], "the target was ended");
    }
    while (waiting && tool_clock_ns() < end) {
        target_drive_sessions(target);
        waiting = false;
        for (unsigned int i = 0; i < SESSIONS_MAX; i++)
            waiting = waiting || target->sessions[i] != NULL;
        if (waiting && tool_endpoint_progress(target->context, 10) != HG_SUCCESS)
            break;
    }
    for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
        if (target->sessions[i] != NULL)
            cp_session_close(target->sessions[i]);
    }
    if (target->context != NULL) {
        (void) tool_endpoint_progress(target->context, 0); /* sends the last answers */
        (void) HG_Context_destroy(target->context);
    }
    if (target->hg_class != NULL)
        (void) HG_Finalize(target->hg_class);
    if (target->session_options.dir_fd >= 0)
        (void) close(target->session_options.dir_fd);
    if (target->session_options.wake_fd >= 0)
        (void) close(target->session_options.wake_fd);
}

static bool target_report(const struct cp_target *target)
{
    const struct cp_options *options = target->options;
    char address[TOOL_ADDRESS_SIZE];

    if (!tool_endpoint_address(target->hg_class, address, sizeof(address)))
        return false;
    if (options->address_file != NULL && !target_write_address_file(options->address_file, address))
        return false;
    if (options->address_fd >= 0)
        return tool_target_report(options->address_fd, address);
    if (printf("%s\n", address) > 0 && fflush(stdout) == 0)
        return true;
    tool_error("cannot write the address: %s", strerror(errno));
    return false;
}

/* Writes a temporary file and renames it, so that a reader finds the whole address or no file. */
static bool target_write_address_file(const char *path, const char *address)
{
    char temporary[4096];
    FILE *file;
    bool written;

    if ((size_t) snprintf(temporary, sizeof(temporary), "%s.part", path) >= sizeof(temporary)) {
        tool_error("--address-file: the name is too long");
        return false;
    }
    file = fopen(temporary, "we");
    written = file != NULL && fprintf(file, "%s\n", address) > 0;
    if (file != NULL)
        written = fclose(file) == 0 && written;
    if (written && rename(temporary, path) == 0)
        return true;
    tool_error("--address-file: cannot write '%s': %s", path, strerror(errno));
    (void) unlink(temporary);
    return false;
}

/* Makes progress until there is nothing left to do and the descriptor can be waited for. */
static hg_return_t target_progress(struct cp_target *target)
{
    unsigned int triggered;
    bool may_wait;
    hg_return_t ret = tool_endpoint_event_round(target->context, &triggered, &may_wait);

    /* Callbacks may have given the sessions something to do. */
    if (ret != HG_SUCCESS || !may_wait || triggered > 0)
        return ret;
    return target_wait(target, HG_Event_get_wait_fd(target->context));
}

/* Waits for the transport and the writing threads; a transport without a descriptor is polled
 * every millisecond. */
static hg_return_t target_wait(struct cp_target *target, int hg_fd)
{
    struct pollfd fds[2] = {{.fd = target->session_options.wake_fd, .events = POLLIN},
                            {.fd = hg_fd, .events = POLLIN}};
    uint64_t value;

    if (poll(fds, hg_fd >= 0 ? 2 : 1, hg_fd >= 0 ? SLEEP_MS : 1) < 0 && errno != EINTR)
        return HG_FAULT;
    if ((fds[0].revents & POLLIN) != 0)
        (void) !read(fds[0].fd, &value, sizeof(value));
    return HG_SUCCESS;
}

/* Drives each session, and ends those that have failed or whose origin is silent for too long. */
static void target_drive_sessions(struct cp_target *target)
{
    uint64_t timeout_ns = tool_clock_from_seconds(target->options->timeout);

    for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
        struct cp_session *session = target->sessions[i];

        if (session == NULL)
            continue;
        if (tool_clock_ns() > cp_session_active_ns(session) + timeout_ns)
            cp_session_abort(session, "the origin did nothing for --timeout");
        cp_session_continue(session);
        if (cp_session_is_over(session)) {
            target->sessions[i] = NULL;
            target_note_end(target, session);
            cp_session_close(session);
        }
    }
}

static void target_note_end(const struct cp_target *target, const struct cp_session *session)
{
    const char *failure = cp_session_failure(session);

    if (target->options->quiet)
        return;
    if (failure == NULL)
        tool_note("'%s' is complete", cp_session_name(session));
    else
        tool_note("dropped '%s': %s", cp_session_name(session), failure);
}

static hg_return_t target_opened(hg_handle_t handle)
{
    struct cp_target *target = target_of(handle);
    struct cp_session **slot = target_free_slot(target);
    char text[CP_TEXT_SIZE] = "the target is busy with as many copies as it takes";
    cp_open_out_t out = {.status = CP_FAILED, .text = text};
    cp_open_in_t in;
    hg_return_t ret = HG_Get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return target_bad_input(handle, ret);
    if (slot != NULL)
        *slot = cp_session_open(target->hg_class, target->context, HG_Get_info(handle)->addr,
                                &target->session_options, &in, text, sizeof(text));
    if (slot != NULL && *slot != NULL) {
        out.status = CP_OK;
        out.session = cp_session_id(*slot);
        out.text = "";
    }
    if (!target->options->quiet)
        tool_note(out.status == CP_OK ? "taking '%s'" : "refused '%s': %s", in.name, text);
    ret = HG_Respond(handle, NULL, NULL, &out);
    (void) HG_Free_input(handle, &in);
    (void) HG_Destroy(handle);
    return ret;
}

static hg_return_t target_pulled(hg_handle_t handle)
{
    struct cp_target *target = target_of(handle);
    cp_pull_out_t out = {.status = CP_FAILED,
                         .text = "the target does not know this copy any more"};
    struct cp_session **slot;
    cp_pull_in_t in;
    hg_return_t ret = HG_Get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return target_bad_input(handle, ret);
    slot = target_find(target, handle, in.session);
    if (slot != NULL) {
        cp_session_pull(*slot, handle, &in);
        return HG_SUCCESS;
    }
    ret = HG_Respond(handle, NULL, NULL, &out);
    (void) HG_Free_input(handle, &in);
    (void) HG_Destroy(handle);
    return ret;
}

static hg_return_t target_closed(hg_handle_t handle)
{
    struct cp_target *target = target_of(handle);
    char text[CP_TEXT_SIZE] = "the target does not know this copy any more";
    cp_close_out_t out = {.status = CP_FAILED, .text = text};
    struct cp_session **slot;
    cp_close_in_t in;
    hg_return_t ret = HG_Get_input(handle, &in);

    if (ret != HG_SUCCESS)
        return target_bad_input(handle, ret);
    slot = target_find(target, handle, in.session);
    if (slot != NULL && in.keep && cp_session_finish(*slot, &in, text, sizeof(text))) {
        out.status = CP_OK;
        out.text = "";
    } else if (slot != NULL) {
        /* The loop closes the session when nothing is in flight. */
        cp_session_abort(*slot, in.keep ? text : "the origin gave the copy up");
    }
    ret = HG_Respond(handle, NULL, NULL, &out);
    (void) HG_Free_input(handle, &in);
    (void) HG_Destroy(handle);
    return ret;
}

static struct cp_session **target_free_slot(struct cp_target *target)
{
    for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
        if (target->sessions[i] == NULL)
            return &target->sessions[i];
    }
    return NULL;
}

/* Finds a session by its id; only the origin that started a copy can continue it. */
static struct cp_session **target_find(struct cp_target *target, hg_handle_t handle, uint64_t id)
{
    for (unsigned int i = 0; i < SESSIONS_MAX; i++) {
        struct cp_session *session = target->sessions[i];

        if (session != NULL && cp_session_id(session) == id &&
            cp_session_belongs_to(session, HG_Get_info(handle)->addr))
            return &target->sessions[i];
    }
    return NULL;
}

static struct cp_target *target_of(hg_handle_t handle)
{
    return HG_Class_get_data(HG_Get_info(handle)->hg_class);
}

static hg_return_t target_bad_input(hg_handle_t handle, hg_return_t ret)
{
    tool_error("cannot read the input of an RPC: %s", HG_Error_to_string(ret));
    (void) HG_Destroy(handle);
    return ret;
}
