/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing the message layer of an endpoint. */

#include "msg_state.h"

#include <string.h>
#include <unistd.h>

#define MSG_MESSAGE_DEFAULT UINT64_C(4096)
#define MSG_MESSAGE_MIN     UINT64_C(256) /* the minimum of na_plugin.h */

static int32_t config_check(const struct kit_endpoint_config *config);
static int32_t state_make(struct kit_endpoint *endpoint, const struct kit_endpoint_config *config);
static int32_t state_setup(struct msg_endpoint *state, const struct kit_endpoint_config *config);
static int32_t session_open(struct msg_endpoint *state, const struct kit_endpoint_config *config);
static void limits_set(struct msg_endpoint *state, const struct kit_endpoint_config *config);
static uint64_t limit(uint64_t wanted);
static void info_fill(const struct msg_endpoint *state, struct na_plugin_class_info *info);
static void counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg);

const struct na_plugin_counters kit_msg_counters_extension = {
    .extension = {.size = sizeof(struct na_plugin_counters)},
    .counters_get = counters_get,
};

int32_t kit_endpoint_open(struct kit_endpoint *endpoint, const struct kit_endpoint_config *config,
                          struct na_plugin_class_info *info)
{
    int32_t ret = config_check(config);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = state_make(endpoint, config);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = state_setup(endpoint->state, config);
    if (ret != NA_PLUGIN_SUCCESS) {
        kit_endpoint_close(endpoint);
        return ret;
    }
    info_fill(endpoint->state, info);
    return NA_PLUGIN_SUCCESS;
}

void kit_endpoint_close(struct kit_endpoint *endpoint)
{
    const struct msg_op_filter all = {.before_epoch = UINT32_MAX};
    struct msg_endpoint *state = endpoint->state;

    if (state == NULL)
        return;
    for (uint32_t i = 0; state->contexts != NULL && i < state->max_contexts; i++) {
        struct msg_context *context = &state->contexts[i];

        kit_match_drop(&context->match);
        kit_msg_wait_teardown_context(context);
        kit_match_close(&context->match);
    }
    kit_msg_rma_free_all(state);
    for (uint32_t i = 0; i < state->session.slot_count; i++) {
        struct msg_peer *peer = msg_peer_at(state, i);

        if (peer == NULL)
            continue;
        kit_msg_deferred_drop(peer);
        kit_msg_parts_drop(peer);
        (void) kit_msg_queue_end(peer, &all, NA_PLUGIN_CANCELED); /* control records */
        msg_peer_close(peer);
    }
    kit_session_close(&state->session);
    kit_msg_out_free_all(state);
    kit_deferrals_free(&state->deferrals);
    kit_parts_free(&state->parts);
    if (state->timer_fd >= 0)
        (void) close(state->timer_fd);
    kit_host->mem_free(state->contexts);
    kit_host->mem_free(state);
    endpoint->state = NULL;
}

bool kit_endpoint_encrypts(const struct kit_endpoint *endpoint)
{
    const struct kit_session *session = &endpoint->state->session;

    return session->config.encrypts && session->secret != NULL;
}

bool kit_endpoint_has_grants(const struct kit_endpoint *endpoint)
{
    const struct kit_session *session = &endpoint->state->session;

    return session->config.has_grants && session->secret != NULL;
}

void kit_msg_memory_refused(struct kit_endpoint *endpoint, const struct kit_peer *peer)
{
    const uint32_t level = kit_log_level_first(&endpoint->state->session.refused_memory);

    MSG_LOG(endpoint, level,
            "refused %s: it asks for memory that was not handed to it in this session "
            "(mem_per_session); others are counted, and at level debug",
            peer->name);
}

bool kit_endpoint_is_active(const struct kit_endpoint *endpoint)
{
    const struct msg_endpoint *state = endpoint->state;

    for (uint32_t i = 0; i < state->max_contexts; i++)
        if (state->contexts[i].active)
            return true;
    return false;
}

void kit_msg_refused(struct kit_endpoint *endpoint, const char *name, const char *why)
{
    const uint32_t level = kit_log_level_first(&endpoint->state->session.refused);

    MSG_LOG(endpoint, level, "refused %s: %s; further ones are counted, and logged as debug", name,
            why);
}

void kit_msg_dropped(struct kit_endpoint *endpoint)
{
    endpoint->state->session.bad++;
}

static void counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    const struct msg_endpoint *state = endpoint->state;
    uint64_t refused, malformed, stale, other_names, refused_memory;

    kit_msg_lock(endpoint);
    refused = state->session.refused;
    malformed = state->session.bad;
    stale = state->counters.frames_stale;
    other_names = state->session.other_names;
    refused_memory = state->session.refused_memory;
    kit_msg_unlock(endpoint);
    report(arg, "refused_key", refused);
    report(arg, "malformed", malformed);
    report(arg, "stale", stale);
    report(arg, "other_name", other_names);
    report(arg, "refused_memory", refused_memory);
}

static int32_t config_check(const struct kit_endpoint_config *config)
{
    const struct kit_msg_ops *ops = config->ops;
    size_t name_size = strlen(config->name);
    uint64_t record =
        sizeof(struct kit_hello_wire) + sizeof(struct kit_hello_key) + name_size + config->raw_size;
    uint64_t least;

    if (ops->control != NULL && record < KIT_CONTROL_MAX)
        record = KIT_CONTROL_MAX;
    least = sizeof(struct wire_header) + wire_record_size(record) + KIT_AUTH_TAG;
    if (name_size == 0 || name_size >= KIT_NAME_MAX || config->raw_size > KIT_RAW_MAX ||
        ops->max_frame > UINT32_MAX || ops->max_frame < least || ops->max_sends == 0) {
        KIT_LOG(NA_PLUGIN_LOG_ERROR, config->plugin,
                "a name of %zu, a raw address of %u and frames of %llu bytes, %u at a time, "
                "do not make an endpoint; the largest record takes %llu",
                name_size, config->raw_size, (unsigned long long) ops->max_frame, ops->max_sends,
                (unsigned long long) least);
        return NA_PLUGIN_INVALID_ARG;
    }
    return NA_PLUGIN_SUCCESS;
}

/* After success kit_endpoint_close() is safe. */
static int32_t state_make(struct kit_endpoint *endpoint, const struct kit_endpoint_config *config)
{
    struct msg_endpoint *state;

    endpoint->ops = config->ops;
    endpoint->plugin = config->plugin;
    endpoint->protocol = config->protocol;
    state = kit_host->mem_alloc(sizeof(*state), 64);
    if (state == NULL)
        return NA_PLUGIN_NOMEM;
    state->endpoint = endpoint;
    state->timer_fd = -1;
    kit_list_init(&state->free_frames);
    kit_list_init(&state->own_frames);
    state->copied_end = &state->copied;
    kit_list_init(&state->free_controls);
    kit_list_init(&state->free_requests);
    kit_list_init(&state->rma_done);
    kit_list_init(&state->rma_abandon);
    kit_list_init(&state->retry);
    kit_list_init(&state->replies_opening);
    kit_list_init(&state->replies_waiting);
    endpoint->state = state;
    return NA_PLUGIN_SUCCESS;
}

static int32_t state_setup(struct msg_endpoint *state, const struct kit_endpoint_config *config)
{
    const struct na_plugin_init *init = config->init;
    int32_t ret;

    state->lock.is_elided = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0;
    state->is_busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    state->is_no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    state->max_contexts = init->max_contexts != 0 ? init->max_contexts : 1;
    limits_set(state, config);
    state->contexts = kit_host->mem_alloc(state->max_contexts * sizeof(*state->contexts), 64);
    if (state->contexts == NULL)
        return NA_PLUGIN_NOMEM;
    for (uint32_t i = 0; i < state->max_contexts; i++) {
        struct msg_context *context = &state->contexts[i];

        context->endpoint = state->endpoint;
        context->id = i;
        context->epoll_fd = context->event_fd = -1;
        kit_msg_matching_setup(context);
    }
    ret = kit_msg_wait_setup(state);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = session_open(state, config);
    return ret;
}

static int32_t session_open(struct msg_endpoint *state, const struct kit_endpoint_config *config)
{
    const struct kit_session_config session = {
        .plugin = config->plugin,
        .name = config->name,
        .raw = config->raw,
        .raw_size = config->raw_size,
        .peer_size = sizeof(struct msg_peer),
        .private_size = config->ops->peer_size,
        .has_tcp_names = config->ops->has_tcp_names,
        .auth_key = config->init->auth_key,
        .auth_key_also = kit_init_auth_key_also(config->init),
        .encrypts = kit_init_encrypts(config->init),
        .has_grants = kit_init_mem_per_session(config->init),
        .endpoint = state->endpoint,
        .peer_path = config->ops->peer_path,
        .path_is_named = config->ops->path_is_named,
    };
    int32_t ret = kit_session_open(&state->session, &session);

    state->session.is_shared = !state->lock.is_elided;
    if (state->session.self != NULL)
        state->self = kit_msg_peer_init(state->endpoint, state->session.self);
    return ret;
}

/* Sets the limits from the requested sizes and the size of a frame. */
static void limits_set(struct msg_endpoint *state, const struct kit_endpoint_config *config)
{
    const struct na_plugin_init *init = config->init;
    uint64_t stride = (config->ops->max_frame + 63) & ~UINT64_C(63);
    const bool has_key = init->auth_key != NULL && init->auth_key[0] != '\0';
    uint64_t most;

    state->frame_room = config->ops->max_frame - (has_key ? KIT_AUTH_TAG : 0);
    most = (state->frame_room - sizeof(struct wire_header) - sizeof(struct wire_record)) &
           ~(uint64_t) (WIRE_ALIGN - 1);
    state->control_most = KIT_CONTROL_MAX;
    if (has_key && kit_init_encrypts(init) && most > KIT_CONTROL_MAX)
        state->control_most = most < KIT_CONTROL_LARGE ? (uint32_t) most : KIT_CONTROL_LARGE;
    state->deferrals.bytes_max = MSG_DEFERRED_BYTES;
    state->max_unexpected = limit(init->max_unexpected_size);
    state->max_expected = limit(init->max_expected_size);
    state->parts.longest =
        state->max_unexpected > state->max_expected ? state->max_unexpected : state->max_expected;
    state->parts.bytes_max = MSG_PARTS_BYTES;
    state->whole = most;
    state->frame_limit = (uint32_t) (MSG_FRAME_BYTES / stride);
    if (state->frame_limit < MSG_FRAME_MIN)
        state->frame_limit = MSG_FRAME_MIN;
}

static uint64_t limit(uint64_t wanted)
{
    if (wanted == 0)
        wanted = MSG_MESSAGE_DEFAULT;
    if (wanted < MSG_MESSAGE_MIN)
        wanted = MSG_MESSAGE_MIN;
    return wanted < MSG_MESSAGE_MAX ? wanted : MSG_MESSAGE_MAX;
}

/* Fills in common capabilities, to which the plugin adds those of its fabric. */
static void info_fill(const struct msg_endpoint *state, struct na_plugin_class_info *info)
{
    info->max_tag = UINT32_MAX;
    info->max_unexpected_size = state->max_unexpected;
    info->max_expected_size = state->max_expected;
    info->unexpected_header_size = 0;
    info->expected_header_size = 0;
    info->capabilities |=
        NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS;
    if (state->session.secret != NULL)
        info->capabilities |= NA_PLUGIN_CAP_AUTHENTICATED;
    if (kit_endpoint_encrypts(state->endpoint))
        info->capabilities |= NA_PLUGIN_CAP_ENCRYPTED;
    if (kit_endpoint_has_grants(state->endpoint) && state->endpoint->rma != NULL)
        info->capabilities |= NA_PLUGIN_CAP_MEM_PER_SESSION;
    if (state->session.secret_also != NULL)
        info->capabilities |= NA_PLUGIN_CAP_SECOND_KEY;
    if (!state->is_busy && state->endpoint->ops->get_fd != NULL &&
        state->endpoint->ops->try_wait != NULL &&
        state->endpoint->ops->get_fd(state->endpoint) >= 0)
        info->capabilities |= NA_PLUGIN_CAP_WAIT_FD;
}
