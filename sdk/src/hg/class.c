/* SPDX-License-Identifier: BSD-3-Clause */
/* Classes: opening and closing them, their settings and data. */
#include "hg/class.h"

#include "bulk/bulk_pool.h"
#include "engine/auto_sm.h"
#include "engine/fork.h"
#include "engine/library.h"
#include "engine/random.h"
#include "hg/answer.h"
#include "hg/context.h"
#include "hg/control.h"
#include "hg/counters.h"
#include "hg/flow.h"
#include "hg/fork.h"
#include "hg/header.h"
#include "hg/options.h"
#include "hg/peer_lost.h"
#include "hg/recv.h"
#include "hg/remote.h"
#include "hg/respond.h"

#include "na_ext.h"

#include <inttypes.h>
#include <stdlib.h>

static hg_class_t *hg_class_new(void);
static void hg_class_delete(hg_class_t *hg_class);
static void hg_class_retry(hg_context_t *context);
static hg_return_t hg_class_open(hg_class_t *hg_class, const char *info_string, bool listen,
                                 const struct hg_options *options);
static hg_return_t hg_class_open_na(hg_class_t *hg_class, const char *info_string, bool listen,
                                    const struct hg_options *options);
static hg_return_t hg_class_open_paths(hg_class_t *hg_class, const struct hg_options *options);
static hg_return_t hg_class_path_init(struct hg_rpc_class *hg_class, enum hg_path index);
static hg_return_t hg_class_path_seal(struct hg_rpc_class *hg_class, enum hg_path index,
                                      const struct hg_options *options);
static hg_return_t hg_class_secrets_open(struct hg_rpc_class *hg_class,
                                         const struct hg_options *options);
static void hg_class_set_options(struct hg_rpc_class *hg_class, const struct hg_options *options);
static na_return_t hg_class_close_na(hg_class_t *hg_class);
static hg_return_t hg_class_set_offset(hg_class_t *hg_class, hg_op_t op, hg_size_t offset,
                                       const char *function);
static hg_size_t hg_class_eager_size(const hg_class_t *hg_class, hg_op_t op);

static const struct hg_upper hg_class_upper = {
    .retry = hg_class_retry,
    .flow_unref = hg_flow_unref,
    .remote_unref = hg_remote_unref,
};

hg_class_t *HG_Init(const char *na_info_string, uint8_t na_listen)
{
    return HG_Init_opt2(na_info_string, na_listen, HG_VERSION(2u, 4u), NULL);
}

hg_class_t *HG_Init_opt(const char *na_info_string, uint8_t na_listen,
                        const struct hg_init_info *hg_init_info)
{
    return HG_Init_opt2(na_info_string, na_listen, HG_VERSION(2u, 2u) & HG_VERSION_MASK,
                        hg_init_info);
}

hg_class_t *HG_Init_opt2(const char *na_info_string, uint8_t na_listen, unsigned int version,
                         const struct hg_init_info *hg_init_info)
{
    hg_class_t *hg_class = NULL;

    (void) HG_Init_reason(na_info_string, na_listen, version, hg_init_info, &hg_class);
    return hg_class;
}

hg_return_t HG_Init_reason(const char *na_info_string, uint8_t na_listen, unsigned int version,
                           const struct hg_init_info *hg_init_info, hg_class_t **hg_class_p)
{
    struct hg_options options;
    hg_class_t *hg_class;
    hg_return_t ret;

    if (hg_class_p == NULL) {
        HG_LOG_ERROR("hg_class_p is NULL; pass where the class goes");
        return HG_INVALID_ARG;
    }
    *hg_class_p = NULL;
    ret = hg_options_read(&options, version, hg_init_info);
    if (ret != HG_SUCCESS)
        return ret;
    hg_class = hg_class_new();
    if (hg_class == NULL) {
        HG_LOG_ERROR("cannot open \"%s\": out of memory",
                     na_info_string != NULL ? na_info_string : "NULL");
        return HG_NOMEM;
    }
    hg_class_set_options(hg_rpc_class(hg_class), &options);
    ret = hg_class_open(hg_class, na_info_string, na_listen != 0, &options);
    if (ret != HG_SUCCESS) {
        (void) hg_class_close_na(hg_class);
        hg_class_delete(hg_class);
        return ret;
    }
    hg_class_link(hg_class);
    *hg_class_p = hg_class;
    return HG_SUCCESS;
}

hg_return_t HG_Finalize(hg_class_t *hg_class)
{
    int32_t addr_count, bulk_count;
    na_return_t na_return;
    bool has_contexts;

    if (hg_class_fork_refused(hg_class, __func__))
        return HG_PERMISSION;
    if (hg_class == NULL)
        return HG_SUCCESS;
    (void) pthread_mutex_lock(&hg_class->lock);
    has_contexts = hg_class->contexts != NULL;
    (void) pthread_mutex_unlock(&hg_class->lock);
    if (!has_contexts)
        hg_blocks_drain(hg_class);
    addr_count = atomic_load(&hg_class->addr_count);
    bulk_count = atomic_load(&hg_class->bulk->count);
    if (has_contexts || addr_count > 0 || bulk_count > 0) {
        HG_LOG_ERROR("cannot close the class while objects of it are left (contexts: %s, "
                     "addresses: %" PRId32 ", bulk descriptors: %" PRId32
                     "); destroy and free them first",
                     has_contexts ? "yes" : "no", addr_count, bulk_count);
        return HG_BUSY;
    }

    if (hg_rpc_class(hg_class)->stats)
        hg_counters_log(hg_class);
    hg_class_unlink(hg_class);
    if (hg_rpc_class(hg_class)->data_free != NULL)
        hg_rpc_class(hg_class)->data_free(hg_rpc_class(hg_class)->data);
    na_return = hg_class_close_na(hg_class);
    hg_class_delete(hg_class);
    return hg_return_from_na(na_return);
}

const char *HG_Class_get_name(const hg_class_t *hg_class)
{
    return hg_class != NULL ? NA_Get_class_name(hg_class->paths[HG_PATH_MAIN].na_class) : NULL;
}

const char *HG_Class_get_protocol(const hg_class_t *hg_class)
{
    return hg_class != NULL ? NA_Get_class_protocol(hg_class->paths[HG_PATH_MAIN].na_class) : NULL;
}

bool HG_Class_is_listening(const hg_class_t *hg_class)
{
    return hg_class != NULL && hg_rpc_class(hg_class)->is_listening;
}

hg_size_t HG_Class_get_input_eager_size(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class_eager_size(hg_class, HG_INPUT) : 0;
}

hg_size_t HG_Class_get_output_eager_size(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class_eager_size(hg_class, HG_OUTPUT) : 0;
}

hg_return_t HG_Class_set_input_offset(hg_class_t *hg_class, hg_size_t offset)
{
    return hg_class_set_offset(hg_class, HG_INPUT, offset, __func__);
}

hg_return_t HG_Class_set_output_offset(hg_class_t *hg_class, hg_size_t offset)
{
    return hg_class_set_offset(hg_class, HG_OUTPUT, offset, __func__);
}

static hg_return_t hg_class_set_offset(hg_class_t *hg_class, hg_op_t op, hg_size_t offset,
                                       const char *function)
{
    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, function);
    if (offset > hg_class_eager_size(hg_class, op)) {
        HG_LOG_ERROR("%s(): the offset is %" PRIu64 "; it has to be below the eager size", function,
                     offset);
        return HG_INVALID_ARG;
    }
    if (op == HG_INPUT)
        hg_rpc_class(hg_class)->in_offset = offset;
    else
        hg_rpc_class(hg_class)->out_offset = offset;
    return HG_SUCCESS;
}

hg_return_t HG_Class_set_data(hg_class_t *hg_class, void *data, void (*free_callback)(void *))
{
    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    hg_rpc_class(hg_class)->data = data;
    hg_rpc_class(hg_class)->data_free = free_callback;
    return HG_SUCCESS;
}

void *HG_Class_get_data(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_rpc_class(hg_class)->data : NULL;
}

hg_return_t HG_Class_set_handle_create_callback(hg_class_t *hg_class,
                                                hg_return_t (*callback)(hg_handle_t, void *),
                                                void *arg)
{
    if (!hg_class_is_usable(hg_class))
        return hg_class_refuse(hg_class, __func__);
    hg_rpc_class(hg_class)->handle_create = callback;
    hg_rpc_class(hg_class)->handle_create_arg = arg;
    return HG_SUCCESS;
}

na_class_t *HG_Class_get_na_sm(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class->paths[HG_PATH_SM].na_class : NULL;
}

uint32_t HG_Class_get_number(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class->number : 0;
}

na_class_t *HG_Class_get_na(const hg_class_t *hg_class)
{
    return hg_class != NULL ? hg_class->paths[HG_PATH_MAIN].na_class : NULL;
}

static hg_class_t *hg_class_new(void)
{
    struct hg_rpc_class *hg_class = calloc(1, sizeof(*hg_class));

    if (hg_class == NULL || hg_registry_init(&hg_class->registry) != HG_SUCCESS) {
        free(hg_class);
        return NULL;
    }
    hg_class->base.upper = &hg_class_upper;
    hg_class->base.bulk = &hg_class->bulk;
    hg_class->base.proc = &hg_class->proc;
    (void) pthread_mutex_init(&hg_class->base.lock, NULL);
    (void) pthread_mutex_init(&hg_class->self_lock, NULL);
    (void) pthread_mutex_init(&hg_class->flows.lock, NULL);
    (void) pthread_mutex_init(&hg_class->remotes.lock, NULL);
    hg_class->answer_hello = hg_answer_run;
    hg_blocks_init(&hg_class->bulk.blocks);
    hg_budget_init(&hg_class->in_budget);
    hg_budget_init(&hg_class->out_budget);
    return &hg_class->base;
}

static void hg_class_delete(hg_class_t *base)
{
    struct hg_rpc_class *hg_class = hg_rpc_class(base);

    hg_registry_fini(&hg_class->registry);
    hg_budget_fini(&hg_class->in_budget);
    hg_budget_fini(&hg_class->out_budget);
    for (uint32_t i = 0; i < HG_HELLO_KEYS; i++)
        kit_auth_secret_close(hg_class->secrets[i]);
    (void) pthread_mutex_destroy(&hg_class->remotes.lock);
    (void) pthread_mutex_destroy(&hg_class->flows.lock);
    (void) pthread_mutex_destroy(&hg_class->bulk.blocks.lock);
    (void) pthread_mutex_destroy(&hg_class->self_lock);
    (void) pthread_mutex_destroy(&hg_class->base.lock);
    free(hg_class);
}

static void hg_class_retry(hg_context_t *context)
{
    hg_bulk_retry(context);
    hg_flow_retry(context);
    hg_remotes_retry(context);
    hg_controls_retry(context);
    hg_respond_retry(context);
    hg_recv_retry(context);
}

static void hg_class_set_options(struct hg_rpc_class *hg_class, const struct hg_options *options)
{
    const struct na_init_info *na_info = &options->na_init_info;
    const struct hg_init_info *info = &options->info;

    hg_class->base.is_busy = (na_info->progress_mode & NA_NO_BLOCK) != 0;
    hg_class->base.is_single_thread = (na_info->thread_mode & NA_THREAD_MODE_SINGLE_CLS) != 0;
    if (info->na_class == NULL)
        hg_class->base.max_contexts = na_info->max_contexts > 0 ? na_info->max_contexts : 1;
    hg_class->bulk.no_eager = info->no_bulk_eager != 0;
    hg_class->no_loopback = info->no_loopback != 0;
    hg_class->no_overflow = info->no_overflow;
    hg_class->release_input_early = info->release_input_early != 0;
    hg_class->stats = info->stats != 0;
    hg_class->has_key = options->auth_key != NULL;
    hg_class->post_init = info->request_post_init;
    hg_class->post_incr = info->request_post_incr > 0 ? (uint32_t) info->request_post_incr : 0;
    atomic_init(&hg_class->overflow_ms, HG_OVERFLOW_TIMEOUT_DEFAULT);
    for (int i = 0; i < HG_PATH_MAX; i++) {
        if (options->info.checksum_level >= HG_CHECKSUM_RPC_HEADERS)
            hg_class->msg_flags[i] |= HG_CORE_HEADER_HAS_HASH;
        if (options->info.checksum_level >= HG_CHECKSUM_RPC_PAYLOAD)
            hg_class->msg_flags[i] |= HG_CORE_HEADER_HAS_PAYLOAD_HASH;
    }
}

/* Open the transports of a class. */
static hg_return_t hg_class_open(hg_class_t *hg_class, const char *info_string, bool listen,
                                 const struct hg_options *options)
{
    hg_return_t ret = hg_class_open_na(hg_class, info_string, listen, options);

    hg_fork_watch();
    hg_class->forks = hg_forks;
    if (ret == HG_SUCCESS)
        ret = hg_class_open_paths(hg_class, options);
    if (ret == HG_SUCCESS)
        hg_peer_lost_begin(hg_class);
    return ret;
}

static hg_return_t hg_class_open_na(hg_class_t *hg_class, const char *info_string, bool listen,
                                    const struct hg_options *options)
{
    struct hg_class_path *path = &hg_class->paths[HG_PATH_MAIN];
    na_return_t na_return;

    if (options->info.na_class != NULL) {
        if (options->na_init_info.encrypt &&
            !NA_Class_has_capability(options->info.na_class, "encrypted")) {
            HG_LOG_ERROR(
                "the NA class that was passed does not encrypt: open it with `encrypt`, or "
                "leave that out");
            return HG_OPNOTSUPPORTED;
        }
        if (options->na_init_info.mem_per_session &&
            !NA_Class_has_capability(options->info.na_class, "memory_per_session")) {
            HG_LOG_ERROR("the NA class that was passed does not keep memory to sessions: open it "
                         "with `mem_per_session`, or leave that out");
            return HG_OPNOTSUPPORTED;
        }
        path->na_class = options->info.na_class;
        hg_rpc_class(hg_class)->is_listening = NA_Is_listening(options->info.na_class);
        return HG_SUCCESS;
    }
    if (info_string == NULL) {
        HG_LOG_ERROR("cannot open a class: the init string is NULL; pass one such as \"na+sm\"");
        return HG_INVALID_ARG;
    }
    na_return =
        NA_Initialize_reason(info_string, listen, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR),
                             &options->na_init_info, &path->na_class, NULL, 0);
    if (na_return != NA_SUCCESS) {
        HG_LOG_ERROR("cannot open \"%s\": %s; see the line before", info_string,
                     HG_Error_to_string(hg_return_from_na(na_return)));
        return hg_return_from_na(na_return);
    }
    hg_class->owns_na_class = true;
    hg_rpc_class(hg_class)->is_listening = listen;
    return HG_SUCCESS;
}

/* Read the limits of the main path, and open the path for shared memory with `auto_sm`. */
static hg_return_t hg_class_open_paths(hg_class_t *hg_class, const struct hg_options *options)
{
    struct hg_rpc_class *rpc_class = hg_rpc_class(hg_class);
    hg_return_t ret = hg_class_path_init(rpc_class, HG_PATH_MAIN);

    if (ret == HG_SUCCESS)
        ret = hg_class_path_seal(rpc_class, HG_PATH_MAIN, options);
    /* The program may have opened the NA class with mem_per_session. */
    hg_class->bulk->has_grants =
        NA_Class_has_capability(hg_class->paths[HG_PATH_MAIN].na_class, "memory_per_session");
    if (ret != HG_SUCCESS || !options->info.auto_sm)
        return ret;
    hg_auto_sm_open(hg_class, &options->na_init_info, options->info.sm_info_string,
                    hg_rpc_class(hg_class)->is_listening);
    if (hg_class->paths[HG_PATH_SM].na_class == NULL)
        return HG_SUCCESS;
    ret = hg_class_path_init(rpc_class, HG_PATH_SM);
    if (ret == HG_SUCCESS)
        ret = hg_class_path_seal(rpc_class, HG_PATH_SM, options);
    if (ret != HG_SUCCESS) {
        (void) NA_Finalize(hg_class->paths[HG_PATH_SM].na_class);
        hg_class->paths[HG_PATH_SM].na_class = NULL;
    }
    return HG_SUCCESS;
}

/* With a key, messages are sealed in sessions if the transport does not prove the key. */
static hg_return_t hg_class_path_seal(struct hg_rpc_class *hg_class, enum hg_path index,
                                      const struct hg_options *options)
{
    const struct hg_class_path *path = &hg_class->base.paths[index];
    const size_t least = sizeof(struct hg_core_header) + sizeof(struct hg_core_header_seal) +
                         sizeof(struct hg_hello_ack);

    /* An NA class of the program may have another key, or none. */
    if (options->auth_key == NULL ||
        (hg_class->base.owns_na_class && NA_Class_has_capability(path->na_class, "authenticated")))
        return HG_SUCCESS;
    if (path->unexpected_size < path->unexpected_header + least ||
        path->expected_size < path->expected_header + least) {
        HG_LOG_ERROR("messages of %zu and %zu bytes are too small for RPCs with auth_key; raise "
                     "max_unexpected_size and max_expected_size",
                     path->unexpected_size, path->expected_size);
        return HG_MSGSIZE;
    }
    hg_class->msg_flags[index] |= HG_CORE_HEADER_HAS_SEAL;
    return hg_class->secrets[0] != NULL ? HG_SUCCESS : hg_class_secrets_open(hg_class, options);
}

static hg_return_t hg_class_secrets_open(struct hg_rpc_class *hg_class,
                                         const struct hg_options *options)
{
    int32_t ret = kit_auth_secret_get(options->auth_key, &hg_class->secrets[0]);

    if (ret == NA_PLUGIN_SUCCESS)
        ret = kit_auth_secret_get(options->na_init_info.auth_key_also, &hg_class->secrets[1]);
    if (ret != NA_PLUGIN_SUCCESS) {
        HG_LOG_ERROR("%s", ret == NA_PLUGIN_NOMEM ? "no memory to stretch auth_key"
                                                  : "libsodium does not start: auth_key cannot be "
                                                    "used");
        return ret == NA_PLUGIN_NOMEM ? HG_NOMEM : HG_FAULT;
    }
    if (!hg_random_bytes(hg_class->instance, sizeof(hg_class->instance))) {
        HG_LOG_ERROR("the system has no random numbers: auth_key cannot be used");
        return HG_FAULT;
    }
    return HG_SUCCESS;
}

static hg_return_t hg_class_path_init(struct hg_rpc_class *hg_class, enum hg_path index)
{
    struct hg_class_path *path = &hg_class->base.paths[index];
    struct hg_tag_layout *tags = &hg_class->tags[index];
    const size_t least = sizeof(struct hg_core_header) + 64;
    uint32_t max_tag = NA_Msg_get_max_tag(path->na_class);
    uint32_t bits = 0;

    path->unexpected_size = NA_Msg_get_max_unexpected_size(path->na_class);
    path->expected_size = NA_Msg_get_max_expected_size(path->na_class);
    path->unexpected_header = NA_Msg_get_unexpected_header_size(path->na_class);
    path->expected_header = NA_Msg_get_expected_header_size(path->na_class);
    if (path->unexpected_size < path->unexpected_header + least ||
        path->expected_size < path->expected_header + least) {
        HG_LOG_ERROR("messages of %zu and %zu bytes are too small for RPCs; raise "
                     "max_unexpected_size and max_expected_size",
                     path->unexpected_size, path->expected_size);
        return HG_MSGSIZE;
    }

    while (bits < 32 && max_tag >= (UINT32_MAX >> (31 - bits)))
        bits++;
    if (bits < 8) {
        HG_LOG_ERROR("the transport's tags have %" PRIu32 " bits, 8 are needed", bits);
        return HG_OPNOTSUPPORTED;
    }
    tags->ack_bit = UINT32_C(1) << (bits - 1);
    tags->slot_bits = (bits - 1) * 2 / 3;
    tags->slot_mask = (UINT32_C(1) << tags->slot_bits) - 1;
    tags->generation_bits = bits - 1 - tags->slot_bits;
    tags->generation_mask = (tags->ack_bit >> tags->slot_bits) - 1;
    return HG_SUCCESS;
}

static na_return_t hg_class_close_na(hg_class_t *hg_class)
{
    na_return_t na_return = NA_SUCCESS;

    if (hg_class->paths[HG_PATH_SM].na_class != NULL)
        na_return = NA_Finalize(hg_class->paths[HG_PATH_SM].na_class);
    if (hg_class->owns_na_class) {
        na_return_t main_return = NA_Finalize(hg_class->paths[HG_PATH_MAIN].na_class);

        if (main_return != NA_SUCCESS)
            na_return = main_return;
    }
    if (na_return != NA_SUCCESS)
        HG_LOG_ERROR("closing the transport failed: %s", NA_Error_to_string(na_return));
    return na_return;
}

/* Returns the largest payload that fits a message on every path. */
static hg_size_t hg_class_eager_size(const hg_class_t *hg_class, hg_op_t op)
{
    hg_size_t least = HG_SIZE_MAX;
    int i;

    for (i = 0; i < HG_PATH_MAX; i++) {
        const struct hg_class_path *path = &hg_class->paths[i];
        hg_size_t size;

        if (path->na_class == NULL)
            continue;
        size = op == HG_INPUT ? path->unexpected_size - path->unexpected_header
                              : path->expected_size - path->expected_header;
        size -= hg_header_size(hg_rpc_class(hg_class)->msg_flags[i]);
        if (size < least)
            least = size;
    }
    return least;
}
