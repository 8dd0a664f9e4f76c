/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the init info of any API version into checked options. */
#include "hg/options.h"

#include "engine/log.h"

#include <inttypes.h>
#include <string.h>

#define HG_REQUEST_POST_DEFAULT 512u
#define HG_REQUEST_POST_MAX     (1u << 20)

/* Default size of a message: 64 KiB and the headers. Unused pages take no memory. */
#define HG_MESSAGE_DEFAULT 69632u

static size_t hg_options_info_size(unsigned int version);
static hg_return_t hg_options_check(const struct hg_init_info *info);

hg_return_t hg_options_read(struct hg_options *options, unsigned int version,
                            const struct hg_init_info *user_info)
{
    struct hg_init_info *info = &options->info;
    hg_return_t ret;

    *info = HG_INIT_INFO_INITIALIZER;
    if (user_info != NULL)
        memcpy(info, user_info, hg_options_info_size(version));
    if (user_info != NULL && (version & HG_VERSION_ADDITIONS) != 0) {
        info->auth_key_also = user_info->auth_key_also;
        info->encrypt = user_info->encrypt;
        info->mem_per_session = user_info->mem_per_session;
    }
    ret = hg_options_check(info);
    if (ret != HG_SUCCESS)
        return ret;

    na_init_info_dup_4_0(&options->na_init_info, &info->na_init_info);
    options->na_init_info.traffic_class = info->traffic_class;
    options->na_init_info.auth_key_also = info->auth_key_also;
    options->na_init_info.encrypt = info->encrypt;
    options->na_init_info.mem_per_session = info->mem_per_session;
    if (options->na_init_info.max_unexpected_size == 0)
        options->na_init_info.max_unexpected_size = HG_MESSAGE_DEFAULT;
    if (options->na_init_info.max_expected_size == 0)
        options->na_init_info.max_expected_size = HG_MESSAGE_DEFAULT;
    options->auth_key = info->na_init_info.auth_key;
    if (options->auth_key != NULL && options->auth_key[0] == '\0')
        options->auth_key = NULL;
    if (info->request_post_init == 0)
        info->request_post_init = HG_REQUEST_POST_DEFAULT;
    if (info->request_post_incr == 0)
        info->request_post_incr = HG_REQUEST_POST_DEFAULT;
    return HG_SUCCESS;
}

/* Returns the size of struct hg_init_info in a version of the API. */
static size_t hg_options_info_size(unsigned int version)
{
    if (HG_VERSION_GE(version, HG_VERSION(2u, 4u)))
        return offsetof(struct hg_init_info, multi_recv_copy_threshold) + sizeof(unsigned int);
    if (HG_VERSION_GE(version, HG_VERSION(2u, 3u)))
        return offsetof(struct hg_init_info, release_input_early) + sizeof(uint8_t);
    return offsetof(struct hg_init_info, stats) + sizeof(uint8_t);
}

static hg_return_t hg_options_check(const struct hg_init_info *info)
{
    if (info->request_post_init > HG_REQUEST_POST_MAX ||
        info->request_post_incr > (int32_t) HG_REQUEST_POST_MAX) {
        HG_LOG_ERROR("request_post_init %" PRIu32 " or request_post_incr %" PRId32
                     " is too large, at most %u receives can be posted",
                     info->request_post_init, info->request_post_incr, HG_REQUEST_POST_MAX);
        return HG_INVALID_ARG;
    }
    if ((unsigned int) info->checksum_level > HG_CHECKSUM_RPC_PAYLOAD) {
        HG_LOG_ERROR("checksum_level %u is none of the HG_CHECKSUM_ values",
                     (unsigned int) info->checksum_level);
        return HG_INVALID_ARG;
    }
    if ((unsigned int) info->traffic_class > NA_TC_NETWORK_CTRL) {
        HG_LOG_ERROR("traffic_class %u is none of the NA_TC_ values",
                     (unsigned int) info->traffic_class);
        return HG_INVALID_ARG;
    }
    if (info->multi_recv_copy_threshold > 0 &&
        info->multi_recv_copy_threshold >
            (info->multi_recv_op_max > 0 ? info->multi_recv_op_max : 4)) {
        HG_LOG_ERROR("multi_recv_copy_threshold %u exceeds multi_recv_op_max %u; lower it",
                     info->multi_recv_copy_threshold, info->multi_recv_op_max);
        return HG_INVALID_ARG;
    }
    return HG_SUCCESS;
}
