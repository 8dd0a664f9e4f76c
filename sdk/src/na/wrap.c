/* SPDX-License-Identifier: BSD-3-Clause */
/* Plugins that wrap another plugin. Their operations for it look to it like the core's own, so that
 * it need not know. */

#include "na/wrap.h"

#include "na/log.h"
#include "na/options.h"
#include "na/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The other plugin's operation, as the completion functions find it, behind where it reports to. */
struct wrapped_op {
    const struct na_plugin_wrap_events *events;
    void *arg;
    _Alignas(NA_OP_ALIGN_MAX) struct na_op_id op;
};

#define WRAPPED_OP_SIZE (offsetof(struct wrapped_op, op) + NA_OP_SIZE)

static int32_t wrap_select(const char *choice, na_plugin_wrap_candidate_fn report, void *arg,
                           char *reason, uint64_t reason_size);
static int32_t report_offers(const struct na_init_choice *choice, const struct na_offers *offers,
                             na_plugin_wrap_candidate_fn report, void *arg);
static void *wrap_op_create(const struct na_plugin *plugin,
                            const struct na_plugin_wrap_events *events, void *arg);
static void wrap_op_destroy(void *private_part);
static int32_t wrap_options_split(const struct na_plugin *plugin, char *address,
                                  const char **options_p, char *reason, uint64_t reason_size);
static const struct wrapped_op *wrapped_op_get(const struct na_op_id *op);

const struct na_plugin_wrap *na_wrap_get(void)
{
    static const struct na_plugin_wrap wrap = {
        .extension = {.size = sizeof(struct na_plugin_wrap)},
        .select = wrap_select,
        .op_create = wrap_op_create,
        .op_destroy = wrap_op_destroy,
        .options_split = wrap_options_split,
    };

    return &wrap;
}

bool na_wrap_report(struct na_op_id *op, int32_t status)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        wrapped->events->complete(wrapped->arg, status);
    return wrapped != NULL;
}

bool na_wrap_report_recv(struct na_op_id *op, int32_t status, uint64_t size,
                         struct na_plugin_addr *source, uint32_t tag)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        wrapped->events->complete_recv(wrapped->arg, status, size, source, tag);
    return wrapped != NULL;
}

bool na_wrap_report_multi_recv(struct na_op_id *op, int32_t status, void *buf, uint64_t size,
                               struct na_plugin_addr *source, uint32_t tag, uint32_t last,
                               int32_t *ret_p)
{
    const struct wrapped_op *wrapped = wrapped_op_get(op);

    if (wrapped != NULL)
        *ret_p = wrapped->events->complete_multi_recv(wrapped->arg, status, buf, size, source, tag,
                                                      last);
    return wrapped != NULL;
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

static void *wrap_op_create(const struct na_plugin *plugin,
                            const struct na_plugin_wrap_events *events, void *arg)
{
    const size_t size = WRAPPED_OP_SIZE + plugin->op_size;
    struct wrapped_op *wrapped;
    void *block = NULL;

    if (posix_memalign(&block, NA_OP_ALIGN_MAX, size) != 0)
        return NULL;
    memset(block, 0, size);
    wrapped = block;
    wrapped->events = events;
    wrapped->arg = arg;
    atomic_init(&wrapped->op.state, OP_WRAPPED);
    return na_op_private(&wrapped->op);
}

static void wrap_op_destroy(void *private_part)
{
    if (private_part != NULL)
        free((void *) (uintptr_t) wrapped_op_get(na_op_from_private(private_part)));
}

static int32_t wrap_options_split(const struct na_plugin *plugin, char *address,
                                  const char **options_p, char *reason, uint64_t reason_size)
{
    return (int32_t) na_options_split(plugin, address, options_p, reason, (size_t) reason_size);
}

/* NULL for the core's own. */
static const struct wrapped_op *wrapped_op_get(const struct na_op_id *op)
{
    if ((atomic_load_explicit(&op->state, memory_order_relaxed) & OP_STATES) != OP_WRAPPED)
        return NULL;
    return (const struct wrapped_op *) (const void *) ((const char *) op -
                                                       offsetof(struct wrapped_op, op));
}
