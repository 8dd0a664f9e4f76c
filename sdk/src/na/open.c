/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens a class: tries each choice of the init string, and each offer for it, until one works. */

#include "na/open.h"

#include "na/host.h"
#include "na/init_string.h"
#include "na/log.h"
#include "na/options.h"
#include "na/select.h"
#include "na/selection.h"
#include "na/signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 512

/* The arguments with which an offer is opened. */
struct attempt {
    const struct na_init_choice *choice;
    const struct na_init_choice *previous; /* in the init string, or NULL */
    const struct na_init_info *info;
    bool listen;
};

static na_return_t open_choice(const struct attempt *attempt, struct na_selection *selection,
                               struct na_class **na_class_p);
static bool was_tried(const struct na_offers *offers, size_t index);
static void add_unselected(const struct attempt *attempt, na_return_t ret,
                           struct na_selection *selection, struct text *why);
static void reason_not_picked(char *reason, const struct na_offer *offer,
                              const struct na_offer *picked);
static na_return_t try_offer(const struct attempt *attempt, const struct na_offer *offer,
                             struct na_class **na_class_p, char *reason);
static na_return_t open_offer(const struct attempt *attempt, const struct na_offer *offer,
                              struct na_class **na_class_p, char *wrong);
static na_return_t class_create(const struct attempt *attempt, const struct na_offer *offer,
                                struct na_class **na_class_p);
static na_return_t class_finalize(struct na_class *na_class);
static void class_free(struct na_class *na_class);
static void fill_init(struct na_plugin_init *init, const struct attempt *attempt,
                      const struct na_class *na_class);
static bool check_limits(const struct na_class *na_class, char *wrong);
static bool check_headers(const struct na_class *na_class, char *wrong);
static void limit_capabilities(struct na_class *na_class);
static const char *check_keys(const struct na_init_info *info, const struct na_class *na_class);
static bool check_size(const char *name, uint64_t size, uint64_t header, char *wrong);
static void report_untried(const struct na_init_string *parsed, size_t next,
                           struct na_selection *selection);

na_return_t na_class_open(const char *info_string, bool listen, const struct na_init_info *info,
                          struct na_class **na_class_p, char *reason, size_t reason_size)
{
    struct na_selection *selection = NULL;
    struct na_init_string parsed;
    na_return_t ret;
    size_t i = 0;

    *na_class_p = NULL;
    ret = na_init_string_parse(info_string, &parsed, reason, reason_size);
    if (ret == NA_INVALID_ARG)
        return ret;
    if (ret == NA_SUCCESS) {
        selection = na_selection_create(info_string);
        ret = selection != NULL ? NA_NOENTRY : NA_NOMEM;
    }
    for (; i < parsed.count && ret != NA_SUCCESS && selection != NULL; i++) {
        const struct attempt attempt = {&parsed.choices[i], i > 0 ? &parsed.choices[i - 1] : NULL,
                                        info, listen};

        ret = open_choice(&attempt, selection, na_class_p);
    }
    if (ret == NA_SUCCESS) {
        const struct na_transport *transport = (*na_class_p)->transport;

        report_untried(&parsed, i, selection);
        (*na_class_p)->selection = selection;
        if (!na_selection_finish(selection, na_transport_class_name(transport),
                                 (*na_class_p)->protocol, transport->path)) {
            (void) na_class_close(*na_class_p);
            *na_class_p = NULL;
            ret = NA_NOMEM;
        }
    } else {
        na_selection_print(selection, reason, reason_size);
        na_selection_free(selection);
    }
    na_init_string_free(&parsed);
    if (ret == NA_NOMEM && reason[0] == '\0')
        (void) snprintf(reason, reason_size, "out of memory");
    if (ret != NA_SUCCESS) {
        NA_LOG_ERROR("cannot open \"%s\" (%s): %s", info_string, NA_Error_to_string(ret), reason);
    } else if (NA_Log_enabled(NA_LOG_LEVEL_INFO, NA_LOG_SUBSYS)) {
        na_selection_print(selection, reason, reason_size);
        NA_LOG_INFO("opened %s+%s for \"%s\": %s", selection->class_name, selection->protocol_name,
                    info_string, reason);
    }
    return ret;
}

na_return_t na_class_close(struct na_class *na_class)
{
    na_return_t ret = class_finalize(na_class);

    if (ret != NA_SUCCESS)
        NA_LOG_WARNING("plugin %s had trouble closing %s+%s: %s", na_class->transport->name,
                       na_class->class_name, na_class->protocol, NA_Error_to_string(ret));
    class_free(na_class);
    return ret;
}

/* Tries the offers for a choice in turn. */
static na_return_t open_choice(const struct attempt *attempt, struct na_selection *selection,
                               struct na_class **na_class_p)
{
    const struct na_init_choice *choice = attempt->choice;
    struct text why = TEXT_INITIALIZER;
    const struct na_offer *picked = NULL;
    struct na_offers offers;
    char reason[REASON_MAX];
    na_return_t ret;

    ret = na_select(choice, &offers, selection, &why);
    if (ret != NA_SUCCESS)
        add_unselected(attempt, ret, selection, &why);
    else
        ret = NA_NODEV;
    for (size_t i = 0; i < offers.count; i++) {
        const struct na_offer *offer = &offers.items[i];

        if (was_tried(&offers, i))
            continue;
        if (picked != NULL || !offer->usable) {
            reason_not_picked(reason, offer, picked);
        } else {
            ret = try_offer(attempt, offer, na_class_p, reason);
            if (ret == NA_SUCCESS)
                picked = offer;
        }
        na_selection_add(selection, na_transport_class_name(offer->transport), offer->protocol,
                         picked == offer, reason);
    }
    na_offers_free(&offers);
    text_free(&why);
    return ret;
}

/* Reports a choice for which there is no offer. */
static void add_unselected(const struct attempt *attempt, na_return_t ret,
                           struct na_selection *selection, struct text *why)
{
    const struct na_init_choice *choice = attempt->choice, *previous = attempt->previous;

    /* `ucx+rc,cma` may be meant as one choice with a list of transports, which is `ucx+rc;cma`. */
    if (ret == NA_PROTONOSUPPORT && choice->plugin == NULL && choice->protocol != NULL &&
        previous != NULL && previous->plugin != NULL && previous->address == NULL)
        text_append(why, "; if it belongs to the choice before it, write %s+%s;%s",
                    previous->plugin, previous->protocol, choice->protocol);
    na_selection_add(selection, choice->plugin,
                     choice->protocol != NULL ? choice->protocol : "auto", false, text_get(why));
}

static void reason_not_picked(char *reason, const struct na_offer *offer,
                              const struct na_offer *picked)
{
    if (!offer->usable)
        (void) snprintf(reason, REASON_MAX, "not usable here: %s",
                        offer->reason[0] != '\0' ? offer->reason : "the plugin gave no reason");
    else if (offer->priority < picked->priority)
        (void) snprintf(reason, REASON_MAX, "priority %d is below %d", offer->priority,
                        picked->priority);
    else
        (void) snprintf(reason, REASON_MAX, "comes after it, priority %d", offer->priority);
}

static na_return_t try_offer(const struct attempt *attempt, const struct na_offer *offer,
                             struct na_class **na_class_p, char *reason)
{
    char wrong[REASON_MAX / 2] = "";
    const char *detail;
    na_return_t ret;

    na_host_clear_error();
    ret = open_offer(attempt, offer, na_class_p, wrong);
    detail = wrong[0] != '\0' ? wrong : na_host_last_error();
    if (ret == NA_SUCCESS)
        (void) snprintf(reason, REASON_MAX, "picked, priority %d%s", offer->priority,
                        offer->node_local ? ", node-local" : "");
    else
        (void) snprintf(reason, REASON_MAX, "opening it failed: %s%s%s", NA_Error_to_string(ret),
                        detail[0] != '\0' ? ", " : "", detail);
    return ret;
}

/* Offers of one protocol on several devices are tried once: the plugin picks the device. */
static bool was_tried(const struct na_offers *offers, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (offers->items[i].transport == offers->items[index].transport &&
            offers->items[i].usable == offers->items[index].usable &&
            strcmp(offers->items[i].protocol, offers->items[index].protocol) == 0)
            return true;
    return false;
}

/* Opens a class for an offer. If the core refuses its options or the opened class, `wrong` gets the
 * reason. */
static na_return_t open_offer(const struct attempt *attempt, const struct na_offer *offer,
                              struct na_class **na_class_p, char *wrong)
{
    struct na_class *na_class;
    struct na_plugin_init init;
    const char *lacking;
    na_return_t ret;

    ret = class_create(attempt, offer, &na_class);
    if (ret != NA_SUCCESS)
        return ret;
    ret = na_options_split(&na_class->table, na_class->address, &na_class->options, wrong,
                           REASON_MAX / 2);
    if (ret != NA_SUCCESS) {
        class_free(na_class);
        return ret;
    }
    fill_init(&init, attempt, na_class);
    na_class->info.size = sizeof(na_class->info);
    na_plugin_enter(offer->transport->path);
    ret = na_return_from_plugin(
        na_class->table.initialize(&init, (struct na_host_class *) (void *) na_class,
                                   &na_class->plugin_class, &na_class->info));
    na_plugin_leave();
    if (ret == NA_SUCCESS && !check_limits(na_class, wrong)) {
        NA_LOG_ERROR("plugin %s opened a class that cannot be used: %s; report it to the plugin's "
                     "maker",
                     offer->transport->name, wrong);
        ret = NA_PROTOCOL_ERROR;
    }
    if (ret == NA_SUCCESS) {
        limit_capabilities(na_class);
        lacking = check_keys(attempt->info, na_class);
        if (lacking != NULL) {
            (void) snprintf(wrong, REASON_MAX / 2, "%s", lacking);
            ret = NA_OPNOTSUPPORTED;
        }
    }
    if (ret != NA_SUCCESS) {
        if (na_class->plugin_class != NULL)
            (void) class_finalize(na_class);
        class_free(na_class);
        return ret;
    }
    na_class->max_unexpected_size = (size_t) na_class->info.max_unexpected_size;
    na_class->max_expected_size = (size_t) na_class->info.max_expected_size;
    na_class->max_tag = na_class->info.max_tag;
    na_class->is_alone = (attempt->info->thread_mode & NA_THREAD_MODE_SINGLE_CLS) != 0 &&
                         (na_class->info.capabilities & NA_PLUGIN_CAP_NO_THREADS) != 0;
    *na_class_p = na_class;
    return NA_SUCCESS;
}

static na_return_t class_create(const struct attempt *attempt, const struct na_offer *offer,
                                struct na_class **na_class_p)
{
    const struct na_init_choice *choice = attempt->choice;
    struct na_class *na_class = calloc(1, sizeof(*na_class));

    if (na_class == NULL)
        return NA_NOMEM;
    (void) pthread_mutex_init(&na_class->mutex, NULL);
    (void) pthread_mutex_init(&na_class->lost_mutex, NULL);
    na_class->forks = na_forks;
    na_class->transport = offer->transport;
    na_class->table = offer->transport->table;
    na_class->listen = attempt->listen;
    na_class->max_contexts = attempt->info->max_contexts > 0 ? attempt->info->max_contexts : 1;
    na_class->no_block = (attempt->info->progress_mode & NA_NO_BLOCK) != 0;
    na_class->single_context = (attempt->info->thread_mode & NA_THREAD_MODE_SINGLE_CTX) != 0;
    na_class->protocol = strdup(offer->protocol);
    na_class->class_name = strdup(choice->plugin != NULL ? choice->plugin : offer->transport->name);
    na_class->address = choice->address != NULL ? strdup(choice->address) : NULL;
    if (na_class->protocol == NULL || na_class->class_name == NULL ||
        (choice->address != NULL && na_class->address == NULL)) {
        class_free(na_class);
        return NA_NOMEM;
    }
    *na_class_p = na_class;
    return NA_SUCCESS;
}

/* A fabric's library that is closed may restore old signal handlers: the program's are kept. */
static na_return_t class_finalize(struct na_class *na_class)
{
    int32_t status;

    na_signals_enter();
    status = na_class->table.finalize(na_class->plugin_class);
    na_signals_leave();
    return na_return_from_plugin(status);
}

static void class_free(struct na_class *na_class)
{
    na_selection_free(na_class->selection);
    (void) pthread_mutex_destroy(&na_class->mutex);
    (void) pthread_mutex_destroy(&na_class->lost_mutex);
    free(na_class->protocol);
    free(na_class->class_name);
    free(na_class->address);
    free(na_class);
}

static void fill_init(struct na_plugin_init *init, const struct attempt *attempt,
                      const struct na_class *na_class)
{
    const struct na_init_info *info = attempt->info;

    *init = (struct na_plugin_init){
        .size = sizeof(*init),
        .listen = attempt->listen,
        .class_name = na_class->class_name,
        .protocol = na_class->protocol,
        .address =
            na_class->address != NULL && na_class->address[0] != '\0' ? na_class->address : NULL,
        .options = na_class->options,
        .ip_subnet = info->ip_subnet,
        .auth_key = info->auth_key,
        .max_unexpected_size = info->max_unexpected_size,
        .max_expected_size = info->max_expected_size,
        .progress_mode = info->progress_mode,
        .thread_mode = info->thread_mode,
        .addr_format = (uint32_t) info->addr_format,
        .traffic_class = (uint32_t) info->traffic_class,
        .max_contexts = na_class->max_contexts,
        .request_mem_device = info->request_mem_device,
        .auth_key_also = info->auth_key_also,
        .encrypt = info->encrypt,
        .mem_per_session = info->mem_per_session,
    };
}

/* Clears capabilities that the plugin does not declare: tools show only the declared ones. */
static void limit_capabilities(struct na_class *na_class)
{
    const uint64_t declared = na_class->table.capabilities;
    const uint64_t beyond = na_class->info.capabilities & ~declared;

    if (beyond == 0)
        return;
    NA_LOG_WARNING("plugin %s opened a class with capabilities 0x%llx that the plugin does not "
                   "declare (0x%llx): not used; report it to the plugin's maker",
                   na_class->transport->name, (unsigned long long) beyond,
                   (unsigned long long) declared);
    na_class->info.capabilities &= declared;
}

/* Returns which security option the class cannot fulfill, or NULL: such an option is never ignored
 * silently. */
static const char *check_keys(const struct na_init_info *info, const struct na_class *na_class)
{
    const uint64_t capabilities = na_class->info.capabilities;

    if (info->encrypt && (capabilities & NA_PLUGIN_CAP_ENCRYPTED) == 0)
        return "it does not encrypt all that it sends; take another transport, or leave `encrypt` "
               "out";
    if (info->mem_per_session && ((capabilities & NA_PLUGIN_CAP_MEM_PER_SESSION) == 0 ||
                                  na_class->transport->mem_grant.mem_grant == NULL))
        return "it does not keep memory to the session in which it was granted; take another "
               "transport, or leave `mem_per_session` out";
    if (info->auth_key_also != NULL && info->auth_key_also[0] != '\0' &&
        (capabilities & NA_PLUGIN_CAP_AUTHENTICATED) != 0 &&
        (capabilities & NA_PLUGIN_CAP_SECOND_KEY) == 0)
        return "it proves one key alone; use a later release of the plugin, or leave auth_key_also "
               "out";
    return NULL;
}

/* Checks the limits that the plugin returned; `wrong` gets the first error. */
static bool check_limits(const struct na_class *na_class, char *wrong)
{
    const struct na_plugin_class_info *info = &na_class->info;

    if (na_class->plugin_class == NULL) {
        (void) snprintf(wrong, REASON_MAX / 2, "the class itself is missing");
        return false;
    }
    if (!check_headers(na_class, wrong))
        return false;
    if (info->max_rma_size != 0 && info->max_rma_size < NA_RMA_SIZE_MIN) {
        (void) snprintf(wrong, REASON_MAX / 2, "max_rma_size is %llu, %u is the least",
                        (unsigned long long) info->max_rma_size, NA_RMA_SIZE_MIN);
        return false;
    }
    return check_size("unexpected", info->max_unexpected_size, info->unexpected_header_size,
                      wrong) &&
           check_size("expected", info->max_expected_size, info->expected_header_size, wrong);
}

static bool check_headers(const struct na_class *na_class, char *wrong)
{
    const struct na_plugin_class_info *info = &na_class->info;

    if (info->unexpected_header_size > 0 && na_class->table.msg_init_unexpected == NULL)
        (void) snprintf(wrong, REASON_MAX / 2,
                        "msg_init_unexpected is missing, and unexpected messages have a header of "
                        "%llu bytes",
                        (unsigned long long) info->unexpected_header_size);
    else if (info->expected_header_size > 0 && na_class->table.msg_init_expected == NULL)
        (void) snprintf(wrong, REASON_MAX / 2,
                        "msg_init_expected is missing, and expected messages have a header of %llu "
                        "bytes",
                        (unsigned long long) info->expected_header_size);
    else
        return true;
    return false;
}

/* A message must have room for the headers of HG, and buffers of the maximum size are allocated. */
static bool check_size(const char *name, uint64_t size, uint64_t header, char *wrong)
{
    if (header > NA_HEADER_SIZE_MAX) {
        (void) snprintf(wrong, REASON_MAX / 2, "%s_header_size is %llu, %u is the most", name,
                        (unsigned long long) header, NA_HEADER_SIZE_MAX);
        return false;
    }
    if (size < header + NA_MSG_SIZE_MIN || size > NA_MSG_SIZE_MAX) {
        (void) snprintf(wrong, REASON_MAX / 2,
                        "max_%s_size is %llu, it must be between %llu and %u", name,
                        (unsigned long long) size, (unsigned long long) header + NA_MSG_SIZE_MIN,
                        NA_MSG_SIZE_MAX);
        return false;
    }
    return true;
}

/* Reports the choices after the picked one. Warns if the next one has an address and the picked one
 * has none, because the address may have been meant for both. */
static void report_untried(const struct na_init_string *parsed, size_t next,
                           struct na_selection *selection)
{
    const struct na_init_choice *picked = &parsed->choices[next - 1];

    for (size_t i = next; i < parsed->count; i++) {
        const struct na_init_choice *choice = &parsed->choices[i];

        na_selection_add(selection, choice->plugin,
                         choice->protocol != NULL ? choice->protocol : "auto", false,
                         "not looked at: an earlier choice was picked");
        if (i == next && choice->plugin == NULL && choice->protocol != NULL &&
            choice->address != NULL && picked->plugin != NULL && picked->address == NULL)
            NA_LOG_WARNING(
                "%s+%s is opened without an address: \"%s\" belongs to %s alone; for both "
                "in one, write %s+%s;%s://%s",
                picked->plugin, picked->protocol, choice->address, choice->protocol, picked->plugin,
                picked->protocol, choice->protocol, choice->address);
    }
}
