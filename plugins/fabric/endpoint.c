/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing the message layer of an endpoint. */

#include "state.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define FABRIC_MESSAGE_DEFAULT UINT64_C(4096)
#define FABRIC_MESSAGE_MIN     UINT64_C(256) /* what na_plugin.h promises */

static int32_t fabric_config_check(const struct fabric_config *config);
static int32_t fabric_state_make(struct fabric_endpoint *endpoint,
                                 const struct fabric_config *config);
static int32_t fabric_state_setup(struct fabric_endpoint_state *state,
                                  const struct fabric_config *config);
static int32_t fabric_state_name(struct fabric_endpoint_state *state,
                                 const struct fabric_config *config);
static void fabric_limits_set(struct fabric_endpoint_state *state,
                              const struct fabric_config *config);
static uint64_t fabric_limit(uint64_t wanted, uint64_t most);
static int32_t fabric_self_make(struct fabric_endpoint_state *state);
static int32_t fabric_numbers_draw(struct fabric_endpoint_state *state);
static void fabric_info_fill(const struct fabric_endpoint_state *state,
                             struct na_plugin_class_info *info);

int32_t fabric_endpoint_open(struct fabric_endpoint *endpoint, const struct fabric_config *config,
                             struct na_plugin_class_info *info)
{
    int32_t ret = fabric_config_check(config);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    ret = fabric_state_make(endpoint, config);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_state_setup(endpoint->state, config);
    if (ret != NA_PLUGIN_SUCCESS) {
        fabric_endpoint_close(endpoint);
        return ret;
    }
    fabric_info_fill(endpoint->state, info);
    return NA_PLUGIN_SUCCESS;
}

void fabric_endpoint_close(struct fabric_endpoint *endpoint)
{
    struct fabric_endpoint_state *state = endpoint->state;

    if (state == NULL)
        return;
    for (uint32_t i = 0; state->contexts != NULL && i < state->max_contexts; i++) {
        struct fabric_context *context = &state->contexts[i];

        kit_match_drop(&context->match);
        fabric_wait_teardown_context(context);
        kit_match_close(&context->match);
    }
    fabric_rma_free_all(state);
    for (uint32_t i = 0; i < state->slot_count; i++) {
        struct fabric_peer_state *peer = state->slots[i].peer;

        if (peer == NULL)
            continue;
        fabric_deferred_drop(peer);
        fabric_queue_fail(peer, UINT32_MAX, NA_PLUGIN_CANCELED); /* control records */
        fabric_peer_close(peer);
    }
    fabric_peers_destroy(state);
    fabric_out_free_all(state);
    kit_deferrals_free(&state->deferrals);
    if (state->timer_fd >= 0)
        (void) close(state->timer_fd);
    kit_host->mem_free(state->contexts);
    kit_host->mem_free(state->name);
    kit_host->mem_free(state->raw);
    kit_host->mem_free(state);
    endpoint->state = NULL;
}

bool fabric_endpoint_is_active(const struct fabric_endpoint *endpoint)
{
    const struct fabric_endpoint_state *state = endpoint->state;

    for (uint32_t i = 0; i < state->max_contexts; i++)
        if (state->contexts[i].active)
            return true;
    return false;
}

static int32_t fabric_config_check(const struct fabric_config *config)
{
    const struct fabric_ops *ops = config->ops;
    size_t name_size = strlen(config->name);
    uint64_t hello = sizeof(struct wire_header) +
                     wire_record_size(sizeof(struct wire_hello) + name_size + config->raw_size);

    if (name_size == 0 || name_size >= FABRIC_NAME_MAX || config->raw_size > FABRIC_RAW_MAX ||
        ops->max_frame > UINT32_MAX || ops->max_frame < hello || ops->max_sends == 0) {
        KIT_LOG(NA_PLUGIN_LOG_ERROR, config->plugin,
                "a name of %zu, a raw address of %u and frames of %llu bytes, %u at a time, "
                "do not make an endpoint; a HELLO takes %llu",
                name_size, config->raw_size, (unsigned long long) ops->max_frame, ops->max_sends,
                (unsigned long long) hello);
        return NA_PLUGIN_INVALID_ARG;
    }
    return NA_PLUGIN_SUCCESS;
}

/* Afterwards fabric_endpoint_close works. */
static int32_t fabric_state_make(struct fabric_endpoint *endpoint,
                                 const struct fabric_config *config)
{
    struct fabric_endpoint_state *state;

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
    kit_list_init(&state->free_controls);
    kit_list_init(&state->free_requests);
    kit_list_init(&state->rma_done);
    kit_list_init(&state->rma_abandon);
    kit_list_init(&state->active);
    kit_list_init(&state->retry);
    kit_list_init(&state->watch);
    endpoint->state = state;
    return NA_PLUGIN_SUCCESS;
}

static int32_t fabric_state_setup(struct fabric_endpoint_state *state,
                                  const struct fabric_config *config)
{
    const struct na_plugin_init *init = config->init;
    int32_t ret;

    state->lock.is_elided = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0;
    state->is_busy = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) != 0;
    state->is_no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    state->max_contexts = init->max_contexts != 0 ? init->max_contexts : 1;
    fabric_limits_set(state, config);
    fabric_process_describe(state);
    state->contexts = kit_host->mem_alloc(state->max_contexts * sizeof(*state->contexts), 64);
    if (state->contexts == NULL)
        return NA_PLUGIN_NOMEM;
    for (uint32_t i = 0; i < state->max_contexts; i++) {
        struct fabric_context *context = &state->contexts[i];

        context->endpoint = state->endpoint;
        context->id = i;
        context->epoll_fd = context->event_fd = -1;
        fabric_matching_setup(context);
    }
    ret = fabric_numbers_draw(state);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_state_name(state, config);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_silence_setup(state);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_wait_setup(state);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_peers_setup(state);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fabric_self_make(state);
    return ret;
}

static int32_t fabric_state_name(struct fabric_endpoint_state *state,
                                 const struct fabric_config *config)
{
    size_t size = strlen(config->name) + 1;

    state->name = kit_host->mem_alloc(size, 0);
    if (state->name == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(state->name, config->name, size);
    if (config->raw_size == 0)
        return NA_PLUGIN_SUCCESS;
    state->raw = kit_host->mem_alloc(config->raw_size, 0);
    if (state->raw == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(state->raw, config->raw, config->raw_size);
    state->raw_size = config->raw_size;
    return NA_PLUGIN_SUCCESS;
}

/* What the caller would like, within what a frame can carry. */
static void fabric_limits_set(struct fabric_endpoint_state *state,
                              const struct fabric_config *config)
{
    const struct na_plugin_init *init = config->init;
    uint64_t stride = (config->ops->max_frame + 63) & ~UINT64_C(63);
    uint64_t most =
        (config->ops->max_frame - sizeof(struct wire_header) - sizeof(struct wire_record)) &
        ~(uint64_t) (WIRE_ALIGN - 1);

    state->deferrals.bytes_max = FABRIC_DEFERRED_BYTES;
    state->max_unexpected = fabric_limit(init->max_unexpected_size, most);
    state->max_expected = fabric_limit(init->max_expected_size, most);
    state->frame_limit = (uint32_t) (FABRIC_FRAME_BYTES / stride);
    if (state->frame_limit < FABRIC_FRAME_MIN)
        state->frame_limit = FABRIC_FRAME_MIN;
}

static uint64_t fabric_limit(uint64_t wanted, uint64_t most)
{
    if (wanted == 0)
        wanted = FABRIC_MESSAGE_DEFAULT;
    if (wanted < FABRIC_MESSAGE_MIN)
        wanted = FABRIC_MESSAGE_MIN;
    return wanted < most ? wanted : most;
}

static int32_t fabric_self_make(struct fabric_endpoint_state *state)
{
    struct fabric_peer_state *self;
    int32_t ret = fabric_peer_make(state, state->name, &self);

    if (ret != NA_PLUGIN_SUCCESS)
        return ret;
    state->self = self;
    self->is_self = true;
    self->phase = FABRIC_PEER_READY;
    self->pending = 0;
    self->their_token = fabric_peer_token(self);
    self->peer.local = 1;
    fabric_peer_set_incarnation(self, state->incarnation);
    return fabric_peer_set_raw(self, state->raw, state->raw_size);
}

static int32_t fabric_numbers_draw(struct fabric_endpoint_state *state)
{
    struct kit_key drawn;
    int32_t ret = kit_key_take(&state->keys, &drawn);

    if (ret != NA_PLUGIN_SUCCESS)
        FABRIC_LOG_ERROR(state->endpoint, "no random numbers: errno %d", errno);
    else
        state->incarnation = drawn.word[0];
    return ret;
}

/* The plugin adds what its fabric can do. */
static void fabric_info_fill(const struct fabric_endpoint_state *state,
                             struct na_plugin_class_info *info)
{
    info->max_tag = UINT32_MAX;
    info->max_unexpected_size = state->max_unexpected;
    info->max_expected_size = state->max_expected;
    info->unexpected_header_size = 0;
    info->expected_header_size = 0;
    info->capabilities |=
        NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_PEER_DEATH | NA_PLUGIN_CAP_NO_THREADS;
    if (!state->is_busy && state->endpoint->ops->get_fd != NULL &&
        state->endpoint->ops->try_wait != NULL &&
        state->endpoint->ops->get_fd(state->endpoint) >= 0)
        info->capabilities |= NA_PLUGIN_CAP_WAIT_FD;
}
