/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of functions that the core gives to plugins (struct na_host), and its extension for
 * plugins that wrap another plugin (struct na_plugin_wrap). */

#include "na/host.h"

#include "na/completion.h"
#include "na/log.h"
#include "na/options.h"
#include "na/select.h"
#include "na/wrap.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

static void *host_mem_alloc(uint64_t size, uint64_t align);
static void host_mem_free(void *ptr);
static uint32_t host_log_enabled(uint32_t level);
static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message);
static const void *host_get_extension(const char *id);
static int32_t wrap_select(const char *choice, na_plugin_wrap_candidate_fn report, void *arg,
                           char *reason, uint64_t reason_size);
static int32_t report_offers(const struct na_init_choice *choice, const struct na_offers *offers,
                             na_plugin_wrap_candidate_fn report, void *arg);
static int32_t wrap_options_split(const struct na_plugin *plugin, char *address,
                                  const char **options_p, char *reason, uint64_t reason_size);

_Static_assert(NA_PLUGIN_LOG_ERROR == (int) NA_LOG_LEVEL_ERROR, "same levels");
_Static_assert(NA_PLUGIN_LOG_DEBUG == (int) NA_LOG_LEVEL_DEBUG, "same levels");

static _Thread_local char host_error[256];

void na_host_clear_error(void)
{
    host_error[0] = '\0';
}

const char *na_host_last_error(void)
{
    return host_error;
}

const struct na_host *na_host_get(void)
{
    static const struct na_host host = {
        .abi_version = NA_PLUGIN_ABI_VERSION,
        .size = sizeof(struct na_host),
        .op_complete = na_completion_report,
        .op_complete_recv = na_completion_report_recv,
        .op_complete_multi_recv = na_completion_report_multi_recv,
        .mem_alloc = host_mem_alloc,
        .mem_free = host_mem_free,
        .log_enabled = host_log_enabled,
        .log = host_log,
        .clock_ns = util_clock_ns,
        .get_extension = host_get_extension,
    };

    return &host;
}

const struct na_plugin_wrap *na_host_get_wrap(void)
{
    static const struct na_plugin_wrap wrap = {
        .extension = {.size = sizeof(struct na_plugin_wrap)},
        .select = wrap_select,
        .op_create = na_wrap_op_create,
        .op_destroy = na_wrap_op_destroy,
        .options_split = wrap_options_split,
    };

    return &wrap;
}

static void *host_mem_alloc(uint64_t size, uint64_t align)
{
    void *ptr = NULL;

    if (size > PTRDIFF_MAX || align > PTRDIFF_MAX || (align & (align - 1)) != 0)
        return NULL;
    if (align <= _Alignof(max_align_t))
        return calloc(1, (size_t) (size > 0 ? size : 1));
    if (posix_memalign(&ptr, (size_t) align, (size_t) (size > 0 ? size : 1)) != 0)
        return NULL;
    memset(ptr, 0, (size_t) size);
    return ptr;
}

static void host_mem_free(void *ptr)
{
    free(ptr);
}

static uint32_t host_log_enabled(uint32_t level)
{
    /* Errors are always passed to host_log(), which keeps them for na_host_last_error(). */
    return level == NA_PLUGIN_LOG_ERROR ||
           (level < NA_LOG_LEVEL_MAX && na_log_level_enabled((enum na_log_level) level));
}

static void host_log(uint32_t level, const char *plugin, const char *function, uint32_t line,
                     const char *message)
{
    char subsys[96];

    if (level == 0 || level >= NA_LOG_LEVEL_MAX || message == NULL)
        return;
    if (level == NA_PLUGIN_LOG_ERROR)
        (void) snprintf(host_error, sizeof(host_error), "%s", message);
    (void) snprintf(subsys, sizeof(subsys), "na_%s", plugin != NULL ? plugin : "plugin");
    NA_Log_write((enum na_log_level) level, subsys, function, (int) line, "%s", message);
}

static const void *host_get_extension(const char *id)
{
    return id != NULL && strcmp(id, NA_PLUGIN_EXT_WRAP) == 0 ? na_host_get_wrap() : NULL;
}

static int32_t wrap_select(const char *choice, na_plugin_wrap_candidate_fn report, void *arg,
                           char *reason, uint64_t reason_size)
{
    struct text why = TEXT_INITIALIZER;
    struct na_init_string parsed = {0};
    struct na_offers offers = {0};
    na_return_t ret;
    int32_t status;

    ret = na_init_string_parse(choice, &parsed, reason, (size_t) reason_size);
    if (ret != NA_SUCCESS)
        return (int32_t) ret;
    if (parsed.count != 1 || parsed.choices[0].address != NULL) {
        text_append(&why, "\"%.80s\" is not one choice without an address", choice);
        ret = NA_INVALID_ARG;
    } else {
        ret = na_select(&parsed.choices[0], &offers, NULL, &why);
    }
    status =
        ret == NA_SUCCESS ? report_offers(&parsed.choices[0], &offers, report, arg) : (int32_t) ret;
    if (ret != NA_SUCCESS && reason_size > 0)
        (void) snprintf(reason, (size_t) reason_size, "%s", text_get(&why));
    na_offers_free(&offers);
    na_init_string_free(&parsed);
    text_free(&why);
    return status;
}

static int32_t report_offers(const struct na_init_choice *choice, const struct na_offers *offers,
                             na_plugin_wrap_candidate_fn report, void *arg)
{
    int32_t status = NA_PLUGIN_SUCCESS;

    for (size_t i = 0; i < offers->count && status == NA_PLUGIN_SUCCESS; i++) {
        const struct na_offer *offer = &offers->items[i];
        const struct na_plugin_offer plugin_offer = {
            .protocol = offer->protocol,
            .device = offer->device[0] != '\0' ? offer->device : NULL,
            .reason = offer->reason[0] != '\0' ? offer->reason : NULL,
            .priority = offer->priority,
            .flags = (offer->usable ? NA_PLUGIN_OFFER_USABLE : 0) |
                     (offer->node_local ? NA_PLUGIN_OFFER_NODE_LOCAL : 0) |
                     (offer->named_only ? NA_PLUGIN_OFFER_NAMED_ONLY : 0),
        };
        const struct na_plugin_wrap_candidate candidate = {
            .plugin = &offer->transport->table,
            .class_name = choice->plugin != NULL ? choice->plugin : offer->transport->name,
            .offer = &plugin_offer,
        };

        status = report(arg, &candidate);
    }
    return status;
}

static int32_t wrap_options_split(const struct na_plugin *plugin, char *address,
                                  const char **options_p, char *reason, uint64_t reason_size)
{
    return (int32_t) na_options_split(plugin, address, options_p, reason, (size_t) reason_size);
}
