/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening the wrapped plugin. Our protocol selects it; its address is the part of ours before the
 * last "?". */

#include "fault.h"

#include <stdio.h>
#include <string.h>

#define REASON_MAX 512

/* The state of trying candidates. */
struct opening {
    struct fault_class *fault_class;
    const struct na_plugin_init *init;
    struct na_host_class *host_class;
    struct na_plugin_class_info *info;
    const char *address; /* NULL for none */
    int32_t status;
    char reason[REASON_MAX];
};

static int32_t class_open(struct opening *opening, char *address);
static int32_t try_candidate(void *arg, const struct na_plugin_wrap_candidate *candidate);
static int32_t open_inner(struct opening *opening, const struct na_plugin *inner,
                          const struct na_plugin_init *given, struct na_plugin_class **class_p);
static void counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg);
static void report_inner(void *arg, const char *name, uint64_t value);
static void load_extensions(struct fault_class *fault_class);
static void limit_segments(struct fault_class *fault_class, struct na_plugin_class_info *info);
static void load_extension(const struct na_plugin *inner, const char *id, void *copy, size_t size);

/* The caller of counters_get(). */
struct counter_caller {
    na_plugin_counter_fn report;
    void *arg;
};

const struct na_plugin_counters fault_counters_extension = {
    .extension = {.size = sizeof(struct na_plugin_counters)},
    .counters_get = counters_get,
};

int32_t fault_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                               struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct fault_class *fault_class = kit_host->mem_alloc(sizeof(*fault_class), 0);
    const size_t length = init->address != NULL ? strlen(init->address) : 0;
    char *address = kit_host->mem_alloc(length + 1, 0);
    struct opening opening = {.fault_class = fault_class,
                              .init = init,
                              .host_class = host_class,
                              .info = info,
                              .status = NA_PLUGIN_PROTONOSUPPORT};
    int32_t ret = NA_PLUGIN_NOMEM;

    if (fault_class == NULL || address == NULL)
        goto error;
    (void) pthread_mutex_init(&fault_class->order, NULL);
    (void) pthread_mutex_init(&fault_class->state, NULL);
    kit_list_init(&fault_class->contexts);
    fault_paths_init(&fault_class->paths);
    memcpy(address, length > 0 ? init->address : "", length + 1);
    fault_class->single_context = (init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CONTEXT) != 0;
    fault_class->may_sleep = (init->progress_mode & NA_PLUGIN_PROGRESS_BUSY) == 0;
    ret = class_open(&opening, address);
    if (ret != NA_PLUGIN_SUCCESS)
        goto error;
    load_extensions(fault_class);
    limit_segments(fault_class, info);
    kit_host->mem_free(address);
    *class_p = (struct na_plugin_class *) (void *) fault_class;
    return NA_PLUGIN_SUCCESS;

error:
    kit_host->mem_free(address);
    kit_host->mem_free(fault_class);
    return ret;
}

int32_t fault_class_finalize(struct na_plugin_class *na_class)
{
    struct fault_class *fault_class = fault_class_get(na_class);
    const atomic_uint_fast64_t *counters = fault_class->counters;
    int32_t ret = fault_class->inner->finalize(fault_class->inner_class);

    if (fault_class->has_faults)
        FAULT_INFO("%llu messages dropped, %llu operations delayed, %llu reordered, %llu cancels "
                   "refused, %llu operations failed after the endpoint's death",
                   (unsigned long long) atomic_load(&counters[FAULT_DROPPED]),
                   (unsigned long long) atomic_load(&counters[FAULT_DELAYED]),
                   (unsigned long long) atomic_load(&counters[FAULT_REORDERED]),
                   (unsigned long long) atomic_load(&counters[FAULT_CANCELS_REFUSED]),
                   (unsigned long long) atomic_load(&counters[FAULT_FAILED]));
    (void) pthread_mutex_destroy(&fault_class->order);
    (void) pthread_mutex_destroy(&fault_class->state);
    kit_host->mem_free(fault_class);
    return ret;
}

/* Splits `address` in place, and opens the first candidate that works. */
static int32_t class_open(struct opening *opening, char *address)
{
    struct fault_class *fault_class = opening->fault_class;
    struct fault_options *options = &fault_class->options;
    char *mark = strrchr(address, '?');
    char reason[REASON_MAX] = "";
    int32_t ret;

    if (mark != NULL)
        *mark++ = '\0';
    if (!fault_options_parse(mark, options, reason, sizeof(reason))) {
        FAULT_ERROR("%s", reason);
        return NA_PLUGIN_INVALID_ARG;
    }
    fault_class->may_defer = options->delay_max_ns != 0 || options->reorder != 0;
    fault_class->has_faults = fault_class->may_defer || options->drop != 0 ||
                              options->cancel_fails != 0 || options->die_after != 0;
    opening->address = address[0] != '\0' ? address : NULL;
    ret =
        fault_wrap->select(opening->init->protocol, try_candidate, opening, reason, sizeof(reason));
    if (fault_class->inner_class != NULL)
        return NA_PLUGIN_SUCCESS;
    if (ret != NA_PLUGIN_SUCCESS) {
        FAULT_ERROR("nothing to wrap for \"%.80s\": %s", opening->init->protocol, reason);
        return ret;
    }
    /* A plugin that failed to open has logged why. */
    if (opening->reason[0] != '\0')
        FAULT_ERROR("cannot open \"%.80s\": %s", opening->init->protocol, opening->reason);
    return opening->status;
}

/* Opens a candidate. The first one that opens is taken, as in the core. */
static int32_t try_candidate(void *arg, const struct na_plugin_wrap_candidate *candidate)
{
    struct opening *opening = arg;
    struct na_plugin_class_info *info = opening->info;
    const struct na_plugin *inner = candidate->plugin;
    struct na_plugin_class *inner_class = NULL;
    struct na_plugin_init init;
    uint32_t size = opening->init->size;

    if ((candidate->offer->flags & NA_PLUGIN_OFFER_USABLE) == 0) {
        const char *reason = candidate->offer->reason;

        if (opening->status == NA_PLUGIN_PROTONOSUPPORT) {
            opening->status = NA_PLUGIN_NODEV;
            (void) snprintf(opening->reason, REASON_MAX, "not usable here: %s",
                            reason != NULL ? reason : "the plugin gave no reason");
        }
        return NA_PLUGIN_SUCCESS;
    }
    memset(&init, 0, sizeof(init));
    memcpy(&init, opening->init, size < sizeof(init) ? size : sizeof(init));
    init.size = size < sizeof(init) ? size : (uint32_t) sizeof(init);
    init.class_name = candidate->class_name;
    init.protocol = candidate->offer->protocol;
    memset((char *) info + sizeof(info->size), 0, info->size - sizeof(info->size));
    opening->status = open_inner(opening, inner, &init, &inner_class);
    info->capabilities &= FAULT_CAPABILITIES;
    if (opening->status == NA_PLUGIN_SUCCESS && inner_class != NULL) {
        opening->fault_class->inner = inner;
        opening->fault_class->inner_class = inner_class;
        return NA_PLUGIN_EXIST; /* ends the selection */
    }
    if (inner_class != NULL)
        (void) inner->finalize(inner_class);
    if (opening->status == NA_PLUGIN_SUCCESS)
        opening->status = NA_PLUGIN_FAULT;
    opening->reason[0] = '\0';
    return NA_PLUGIN_SUCCESS;
}

/* The wrapped plugin's own options precede the "?" of ours. */
static int32_t open_inner(struct opening *opening, const struct na_plugin *inner,
                          const struct na_plugin_init *given, struct na_plugin_class **class_p)
{
    const size_t length = opening->address != NULL ? strlen(opening->address) : 0;
    char *address = kit_host->mem_alloc(length + 1, 0);
    struct na_plugin_init init = *given;
    int32_t ret;

    if (address == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(address, length > 0 ? opening->address : "", length + 1);
    ret = fault_split_options(inner, address, &init.options);
    init.address = address[0] != '\0' ? address : NULL;
    if (ret == NA_PLUGIN_SUCCESS)
        ret = inner->initialize(&init, opening->host_class, class_p, opening->info);
    kit_host->mem_free(address);
    return ret;
}

/* Reports our counters, then those of the wrapped plugin. */
static void counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report, void *arg)
{
    static const char *const names[FAULT_COUNTERS] = {
        [FAULT_DROPPED] = "dropped",     [FAULT_DELAYED] = "delayed",
        [FAULT_REORDERED] = "reordered", [FAULT_CANCELS_REFUSED] = "cancels_refused",
        [FAULT_FAILED] = "failed",
    };
    struct fault_class *fault_class = fault_class_get(na_class);
    struct counter_caller caller = {.report = report, .arg = arg};

    for (int i = 0; i < FAULT_COUNTERS; i++)
        report(arg, names[i], atomic_load(&fault_class->counters[i]));
    if (fault_class->inner_counters.counters_get != NULL)
        fault_class->inner_counters.counters_get(fault_class->inner_class, report_inner, &caller);
}

static void report_inner(void *arg, const char *name, uint64_t value)
{
    const struct counter_caller *caller = arg;
    char inner[64];

    (void) snprintf(inner, sizeof(inner), "inner_%s", name != NULL ? name : "");
    caller->report(caller->arg, inner, value);
}

static void load_extensions(struct fault_class *fault_class)
{
    struct na_plugin_addr_serialize *serialize = &fault_class->addr_serialize;

    load_extension(fault_class->inner, NA_PLUGIN_EXT_MULTI_RECV, &fault_class->multi_recv,
                   sizeof(fault_class->multi_recv));
    load_extension(fault_class->inner, NA_PLUGIN_EXT_ADDR_SERIALIZE, serialize, sizeof(*serialize));
    if (serialize->addr_serialize_size == NULL || serialize->addr_serialize == NULL ||
        serialize->addr_deserialize == NULL)
        memset(serialize, 0, sizeof(*serialize));
    load_extension(fault_class->inner, NA_PLUGIN_EXT_COUNTERS, &fault_class->inner_counters,
                   sizeof(fault_class->inner_counters));
    load_extension(fault_class->inner, NA_PLUGIN_EXT_PEER_EVENTS, &fault_class->peer_events,
                   sizeof(fault_class->peer_events));
    load_extension(fault_class->inner, NA_PLUGIN_EXT_MEM_SEGMENTS, &fault_class->mem_segments,
                   sizeof(fault_class->mem_segments));
}

/* The limit of the wrapped class may be lower than that of its plugin. */
static void limit_segments(struct fault_class *fault_class, struct na_plugin_class_info *info)
{
    const struct na_plugin_mem_segments *inner = &fault_class->mem_segments;
    const bool has_member =
        info->size >= offsetof(struct na_plugin_class_info, max_segments) + sizeof(uint64_t);
    uint64_t max = inner->mem_create_segments != NULL ? inner->max_segments : 1;

    if (has_member && info->max_segments != 0 && info->max_segments < max)
        max = info->max_segments;
    fault_class->max_segments = max < FAULT_SEGMENTS_MAX ? max : FAULT_SEGMENTS_MAX;
    if (has_member)
        info->max_segments = fault_class->max_segments;
}

static void load_extension(const struct na_plugin *inner, const char *id, void *copy, size_t size)
{
    const struct na_plugin_extension *extension =
        inner->get_extension != NULL ? inner->get_extension(id) : NULL;

    if (extension != NULL)
        memcpy(copy, extension, extension->size < size ? extension->size : size);
}
