/* SPDX-License-Identifier: BSD-3-Clause */
/* Code shared by both sides of `hg_perf na`. */

#include "hg_perf/perf_na.h"

#include <string.h>

#include "common/tool_endpoint.h"
#include "common/tool_message.h"

#define TRIGGER_MAX 64

na_class_t *perf_na_class_create(const struct perf_options *options, bool listen)
{
    const char *init = listen ? options->init : options->origin_init;
    struct na_init_info info = NA_INIT_INFO_INITIALIZER;
    na_class_t *na_class;

    info.progress_mode = options->busy ? NA_NO_BLOCK : 0;
    info.thread_mode = NA_THREAD_MODE_SINGLE;
    info.auth_key = options->key;
    info.encrypt = options->encrypt;
    na_class = NA_Initialize_opt2(init, listen, NA_VERSION(6, 0), &info);
    if (na_class == NULL)
        tool_endpoint_error(init);
    return na_class;
}

bool perf_na_buffer_create(na_class_t *na_class, struct perf_na_buffer *buffer, bool expected,
                           unsigned long flags)
{
    na_return_t ret;

    buffer->size = expected ? NA_Msg_get_max_expected_size(na_class)
                            : NA_Msg_get_max_unexpected_size(na_class);
    buffer->header_size = expected ? NA_Msg_get_expected_header_size(na_class)
                                   : NA_Msg_get_unexpected_header_size(na_class);
    buffer->memory = NA_Msg_buf_alloc(na_class, buffer->size, flags, &buffer->plugin_data);
    if (buffer->memory == NULL) {
        tool_error("no message buffer of %zu bytes", buffer->size);
        return false;
    }
    memset(buffer->memory, 0, buffer->size);
    ret = expected ? NA_Msg_init_expected(na_class, buffer->memory, buffer->size)
                   : NA_Msg_init_unexpected(na_class, buffer->memory, buffer->size);
    if (ret != NA_SUCCESS)
        tool_error("cannot prepare a message buffer: %s", NA_Error_to_string(ret));
    return ret == NA_SUCCESS;
}

void perf_na_buffer_destroy(na_class_t *na_class, struct perf_na_buffer *buffer)
{
    if (buffer->memory != NULL)
        NA_Msg_buf_free(na_class, buffer->memory, buffer->plugin_data);
    buffer->memory = NULL;
}

na_return_t perf_na_progress(na_class_t *na_class, na_context_t *context, unsigned int timeout_ms)
{
    unsigned int count = 0;
    na_return_t ret = NA_Trigger(context, TRIGGER_MAX, &count);

    /* A callback may be what the caller waits for, so only a round without callbacks may sleep. */
    if (ret == NA_SUCCESS && count > 0)
        return NA_SUCCESS;
    ret = NA_Progress(na_class, context, timeout_ms);
    return ret == NA_TIMEOUT || ret == NA_INTERRUPT || ret == NA_AGAIN ? NA_SUCCESS : ret;
}
