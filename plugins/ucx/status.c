/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mapping UCX's status codes to NA's, and UCX's log. What UCX logs inside of the plugin's calls,
 * and in its async thread, goes to the plugin's log at level info instead of to standard output.
 */

#include "ucx.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef __has_include
#    if __has_include(<ucs/debug/log_def.h>)
#        include <ucs/debug/log_def.h>
#        define UCX_HAS_LOG_HANDLER 1
#    endif
#endif

/* The name of UCX's async thread, which logs the state of devices. */
#define UCX_THREAD_NAME "async"

/* The cheapest model; it takes a few bytes of the static TLS that the loader has in reserve. */
_Thread_local uint32_t ucx_log_depth __attribute__((tls_model("initial-exec")));

pthread_mutex_t ucx_log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool ucx_log_is_captured;
static _Thread_local char ucx_log_text[256];

/* Logs that UCX failed to do `action`, and returns NA's status, never NA_PLUGIN_AGAIN. */
int32_t ucx_failed(const char *action, ucs_status_t status)
{
    int32_t ret = ucx_status(status);

    UCX_LOG_ERROR("UCX cannot %s: %s (%s)", action, ucs_status_string(status), ucx_log_last());
    return ret == NA_PLUGIN_AGAIN ? NA_PLUGIN_NOMEM : ret;
}

int32_t ucx_status(ucs_status_t status)
{
    switch (status) {
    case UCS_OK:
        return NA_PLUGIN_SUCCESS;
    case UCS_ERR_NO_MEMORY:
        return NA_PLUGIN_NOMEM;
    case UCS_ERR_NO_RESOURCE:
        return NA_PLUGIN_AGAIN;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return NA_PLUGIN_INVALID_ARG;
    case UCS_ERR_NO_DEVICE:
        return NA_PLUGIN_NODEV;
    case UCS_ERR_BUSY:
        return NA_PLUGIN_BUSY;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
        return NA_PLUGIN_OPNOTSUPPORTED;
    case UCS_ERR_MESSAGE_TRUNCATED:
    case UCS_ERR_BUFFER_TOO_SMALL:
    case UCS_ERR_EXCEEDS_LIMIT:
        return NA_PLUGIN_OVERFLOW;
    case UCS_ERR_CANCELED: /* with its endpoint: this plugin cancels no request */
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_TIMED_OUT:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
        return NA_PLUGIN_HOSTUNREACH;
    default:
        return NA_PLUGIN_IO_ERROR;
    }
}

#ifdef UCX_HAS_LOG_HANDLER
static ucs_log_func_rc_t ucx_log_take(const char *file, unsigned line, const char *function,
                                      ucs_log_level_t level,
                                      const ucs_log_component_config_t *config, const char *format,
                                      va_list args) __attribute__((format(printf, 6, 0)));
static bool ucx_log_is_meant(void);
#endif

/*
 * Installs the handler for the lifetime of the process: handlers are a stack, and popping would
 * remove one that another user of UCX pushed later. It passes on what other users of UCX cause.
 */
void ucx_log_capture(void)
{
#ifdef UCX_HAS_LOG_HANDLER
    (void) pthread_mutex_lock(&ucx_log_lock);
    if (!ucx_log_is_captured)
        ucs_log_push_handler(ucx_log_take);
    ucx_log_is_captured = true;
    (void) pthread_mutex_unlock(&ucx_log_lock);
#endif
}

void ucx_log_reset(void)
{
    ucx_log_text[0] = '\0';
}

/* The last line that UCX logged in this thread since ucx_log_reset(), the reason of a failure. */
const char *ucx_log_last(void)
{
    return ucx_log_text[0] != '\0' ? ucx_log_text : "UCX says no more";
}

#ifdef UCX_HAS_LOG_HANDLER
static ucs_log_func_rc_t ucx_log_take(const char *file, unsigned line, const char *function,
                                      ucs_log_level_t level,
                                      const ucs_log_component_config_t *config, const char *format,
                                      va_list args)
{
    char text[sizeof(ucx_log_text)];

    (void) file;
    (void) config;
    if (level > UCS_LOG_LEVEL_WARN || level == UCS_LOG_LEVEL_FATAL || !ucx_log_is_meant())
        return UCS_LOG_FUNC_RC_CONTINUE;
    (void) vsnprintf(text, sizeof(text), format, args);
    memcpy(ucx_log_text, text, sizeof(text));
    na_plugin_log(kit_host, NA_PLUGIN_LOG_INFO, UCX_PLUGIN_NAME, function, line, "UCX: %s", text);
    return UCS_LOG_FUNC_RC_STOP;
}

static bool ucx_log_is_meant(void)
{
    char name[16] = "";

    return ucx_log_depth != 0 || (pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
                                  strcmp(name, UCX_THREAD_NAME) == 0);
}
#endif
