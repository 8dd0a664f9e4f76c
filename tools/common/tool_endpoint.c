/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the tools. */

#include "common/tool_endpoint.h"

#include <mercury_ext.h>
#include <na_ext.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool_message.h"
#include "common/tool_signal.h"

/* Maximum number of callbacks per round. */
#define TRIGGER_MAX 64

static char *init_without(const char *init, bool keeps_host, bool keeps_options);
static size_t host_length(const char *address, size_t length);
static int log_until_signal(FILE *stream, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void tool_endpoint_log(void)
{
    NA_Set_log_func(log_until_signal);
}

hg_class_t *tool_endpoint_open(const char *init, bool listen, const struct hg_init_info *info)
{
    hg_class_t *hg_class = HG_Init_opt2(init, listen, HG_VERSION(2, 4), info);

    if (hg_class == NULL)
        tool_endpoint_error(init);
    return hg_class;
}

void tool_endpoint_error(const char *init)
{
    tool_error("cannot open an endpoint with --init '%s'; 'hg_info --init %s' shows why", init,
               init);
}

bool tool_endpoint_address(hg_class_t *hg_class, char *address, size_t size)
{
    hg_size_t address_size = size;
    hg_addr_t self = HG_ADDR_NULL;
    hg_return_t ret = HG_Addr_self(hg_class, &self);

    if (ret == HG_SUCCESS) {
        ret = HG_Addr_to_string(hg_class, address, &address_size, self);
        (void) HG_Addr_free(hg_class, self);
    }
    if (ret != HG_SUCCESS)
        tool_error("cannot get the target's own address: %s", HG_Error_to_string(ret));
    return ret == HG_SUCCESS;
}

bool tool_endpoint_is_node_local(const na_class_t *na_class)
{
    const struct na_selection *selection = NA_Class_get_selection(na_class);
    struct na_plugin_record *records = NULL;
    bool node_local = false;

    if (selection == NULL || NA_Plugin_get_records(0, &records) != NA_SUCCESS)
        return false;
    for (const struct na_plugin_record *record = records; record != NULL; record = record->next) {
        const struct na_plugin_info *info = record->info;

        if (info == NULL || strcmp(record->path, selection->plugin_path) != 0)
            continue;
        for (size_t i = 0; i < info->protocol_count; i++) {
            if (strcmp(info->protocols[i].name, selection->protocol_name) == 0)
                node_local = info->protocols[i].node_local;
        }
    }
    NA_Plugin_free_records(records);
    return node_local;
}

char *tool_endpoint_origin_init(const char *init)
{
    return init_without(init, false, false);
}

char *tool_endpoint_beside_init(const char *init, bool is_node_local)
{
    return init_without(init, !is_node_local, true);
}

hg_return_t tool_endpoint_progress(hg_context_t *context, unsigned int timeout_ms)
{
    unsigned int count = 0;
    hg_return_t ret = HG_Trigger(context, 0, TRIGGER_MAX, &count);

    /* A callback may be what the caller waits for, so only a round without callbacks may sleep. */
    if (ret == HG_SUCCESS && count > 0)
        return HG_SUCCESS;
    return tool_endpoint_result(HG_Progress(context, timeout_ms));
}

hg_return_t tool_endpoint_event_round(hg_context_t *context, unsigned int *triggered,
                                      bool *may_wait)
{
    unsigned int count = 0;
    hg_return_t ret = HG_Event_progress(context, &count);

    *triggered = 0;
    if (ret == HG_SUCCESS)
        ret = HG_Event_trigger(context, TRIGGER_MAX, triggered);
    ret = tool_endpoint_result(ret);
    *may_wait = ret == HG_SUCCESS && !HG_Event_ready(context);
    return ret;
}

hg_return_t tool_endpoint_result(hg_return_t ret)
{
    return ret == HG_TIMEOUT || ret == HG_INTERRUPT || ret == HG_AGAIN ? HG_SUCCESS : ret;
}

/* Copies an init string without the host and port of each choice, or without the port, and with
 * or without options. */
static char *init_without(const char *init, bool keeps_host, bool keeps_options)
{
    char *copy = strdup(init), *to = copy;
    const char *from = init;

    while (to != NULL && *from != '\0') {
        const char *address = from + strlen("://");
        size_t length, host, options;

        if (strncmp(from, "://", strlen("://")) != 0) {
            *to++ = *from++;
            continue;
        }
        length = strcspn(address, "?,");
        options = strcspn(address + length, ",");
        from = address + length + options;
        host = keeps_host ? host_length(address, length) : 0;
        options = keeps_options ? options : 0;
        if (host + options > 0) {
            memcpy(to, "://", strlen("://"));
            memcpy(to + strlen("://"), address, host);
            memcpy(to + strlen("://") + host, address + length, options);
            to += strlen("://") + host + options;
        }
    }
    if (to != NULL)
        *to = '\0';
    return copy;
}

/* Length of the host in "host:port"; the colons inside a bracketed IPv6 address begin no port. */
static size_t host_length(const char *address, size_t length)
{
    for (size_t i = length; i > 0 && address[i - 1] != ']'; i--)
        if (address[i - 1] == ':')
            return i - 1;
    return length;
}

static int log_until_signal(FILE *stream, const char *format, ...)
{
    va_list args;
    int written;

    if (tool_signal_received() != 0)
        return 0;
    va_start(args, format);
    written = vfprintf(stream, format, args);
    va_end(args);
    return written;
}
