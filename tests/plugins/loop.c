/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The loop plugin, a transport between the classes of one process, which exercises the core and
 * obeys struct loop_control. It is built several times, with LOOP_NAME, LOOP_WAIT (0: nothing to
 * wait on, 1: a descriptor, 2: poll_wait) and LOOP_EXTENSIONS. This file has its offers, classes,
 * contexts and addresses.
 */

#include "loop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#ifndef NA_PLUGIN_CAP_NO_THREADS
#    define NA_PLUGIN_CAP_NO_THREADS 0 /* built with an older header */
#endif

struct loop_control loop_control = {.size = sizeof(loop_control)};
const struct na_host *loop_host;
pthread_mutex_t loop_mutex = PTHREAD_MUTEX_INITIALIZER;
struct na_plugin_class *loop_classes[CLASSES_MAX];

/* The status with which a function has to fail at its start; NA_PLUGIN_SUCCESS: none. */
int32_t loop_fails(const char *function)
{
    if (loop_control.hook != NULL)
        loop_control.hook(function);
    return loop_control.fail != NULL && strcmp(loop_control.fail, function) == 0
               ? loop_control.fail_status
               : NA_PLUGIN_SUCCESS;
}

void loop_count(int change)
{
    atomic_fetch_add(&loop_control.objects, (unsigned int) change);
}

void loop_append(struct loop_op **list, struct loop_op *op)
{
    struct loop_op **first = list;

    op->next = NULL;
    while (*list != NULL)
        list = &(*list)->next;
    *list = op;
    op->list = first;
}

int loop_take(struct loop_op **list, struct loop_op *op)
{
    for (; *list != NULL; list = &(*list)->next) {
        if (*list == op) {
            *list = op->next;
            op->list = NULL;
            return 1;
        }
    }
    return 0;
}

void loop_complete(struct loop_op *op, int32_t status)
{
    loop_host->op_complete(op, status);
    if (loop_control.complete_twice)
        loop_host->op_complete(op, status);
}

void loop_notify(struct na_plugin_context *context)
{
    const uint64_t one = 1;

    context->woken = 1;
    pthread_cond_broadcast(&context->cond);
    if (context->fd >= 0 && write(context->fd, &one, sizeof(one)) < 0)
        loop_host->log(NA_PLUGIN_LOG_DEBUG, LOOP_NAME, __func__, __LINE__, "already readable");
}

static int32_t loop_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const struct na_plugin_offer offers[] = {
        {"self", "loop0", NULL, 10, NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL},
        {"self", "loop1", NULL, 10, NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL},
        {"absent", NULL, "there is no such device", 90, 0},
        {"raw;a;b", NULL, NULL, 100, NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NAMED_ONLY},
        {"raw;c", NULL, "there is no c", 100, NA_PLUGIN_OFFER_NAMED_ONLY},
        {LOOP_NAME, NULL, "it is no protocol", 200, 0},
        {"two words", NULL, NULL, 200, NA_PLUGIN_OFFER_USABLE},
        {"ends+", NULL, NULL, 200, NA_PLUGIN_OFFER_USABLE},
        {"\033[31mred", NULL, NULL, 200, NA_PLUGIN_OFFER_USABLE},
        {"self", "loop 2", NULL, 1, NA_PLUGIN_OFFER_USABLE},
    };
    const size_t count = loop_control.odd_offers ? loop_control.odd_offers == 2 ? 10 : 9 : 5;
    int32_t status = loop_fails("enumerate");

    for (size_t i = 0; i < count && status == 0; i++)
        if (protocol != NULL ? loop_fails("enumerate_all") || !strcmp(protocol, offers[i].protocol)
                             : (offers[i].flags & NA_PLUGIN_OFFER_NAMED_ONLY) == 0)
            status = report(arg, &offers[i]);
    return status;
}

static int32_t loop_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                               struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    uint32_t number = 0;

    (void) host_class;
    if (loop_fails("initialize_partly") == 0 && loop_fails("initialize") != 0)
        return loop_fails("initialize");
    if (init->address != NULL && strcmp(init->address, "bad") == 0)
        return NA_PLUGIN_INVALID_ARG;
    (void) snprintf(loop_control.address, sizeof(loop_control.address), "%s",
                    init->address != NULL ? init->address : "(none)");
#if NA_PLUGIN_ABI_MINOR >= 2
    if (init->size >= offsetof(struct na_plugin_init, options) + sizeof(init->options))
        (void) snprintf(loop_control.options, sizeof(loop_control.options), "%s",
                        init->options != NULL ? init->options : "(none)");
#endif
    na_class = loop_host->mem_alloc(sizeof(*na_class), 64);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    pthread_mutex_lock(&loop_mutex);
    while (number < CLASSES_MAX && loop_classes[number] != NULL)
        number++;
    if (number < CLASSES_MAX)
        loop_classes[number] = na_class;
    pthread_mutex_unlock(&loop_mutex);
    na_class->number = number;
    loop_count(1);
    *class_p = na_class;
    info->max_tag = TAG_MAX;
    info->capabilities = NA_PLUGIN_CAP_RMA;
    /*
     * A call of one class may complete a receive of another class, on another thread. So the
     * plugin declares NO_THREADS only if the program promises a single thread.
     */
    if ((init->thread_mode & NA_PLUGIN_THREAD_SINGLE_CLASS) != 0)
        info->capabilities |= NA_PLUGIN_CAP_NO_THREADS;
    info->max_unexpected_size = MESSAGE_MAX;
    info->max_expected_size = MESSAGE_MAX / 2;
    info->unexpected_header_size = 4;
    info->expected_header_size = loop_control.expected_header;
    info->capabilities |= loop_control.more_capabilities;
    info->max_rma_size = 1 << 20;
    if (loop_control.max_unexpected != 0)
        info->max_unexpected_size = loop_control.max_unexpected;
    if (loop_control.max_rma != 0)
        info->max_rma_size = loop_control.max_rma;
    return number < CLASSES_MAX ? loop_fails("initialize_partly") : NA_PLUGIN_NOMEM;
}

static int32_t loop_finalize(struct na_plugin_class *na_class)
{
    pthread_mutex_lock(&loop_mutex);
    if (na_class->number < CLASSES_MAX)
        loop_classes[na_class->number] = NULL;
    pthread_mutex_unlock(&loop_mutex);
    loop_host->mem_free(na_class);
    loop_count(-1);
    return loop_fails("finalize");
}

static int32_t loop_context_create(struct na_plugin_class *na_class,
                                   struct na_host_context *host_context, uint32_t id,
                                   struct na_plugin_context **context_p)
{
    struct na_plugin_context *context;
    pthread_condattr_t attr;

    (void) host_context;
    if (loop_fails("context_create") != 0)
        return loop_fails("context_create");
    context = loop_host->mem_alloc(sizeof(*context), 0);
    if (context == NULL || id >= CONTEXTS_MAX) {
        loop_host->mem_free(context);
        return NA_PLUGIN_NOMEM;
    }
    context->na_class = na_class;
    context->id = id;
    context->fd = LOOP_WAIT == 1 ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
    pthread_mutex_init(&context->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&context->cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_lock(&loop_mutex);
    na_class->contexts[id] = context;
    pthread_mutex_unlock(&loop_mutex);
    loop_count(1);
    *context_p = context;
    return NA_PLUGIN_SUCCESS;
}

static int32_t loop_context_stop(struct na_plugin_context *context)
{
    struct loop_op **lists[] = {&context->posted, &context->done, &context->held};

    pthread_mutex_lock(&context->mutex);
    context->stopped = 1;
    for (size_t i = 0; i < 3; i++) {
        while (*lists[i] != NULL) {
            struct loop_op *op = *lists[i];

            (void) loop_take(lists[i], op);
            if (!loop_control.leave_on_stop)
                loop_complete(op, i == 1 ? NA_PLUGIN_SUCCESS : NA_PLUGIN_CANCELED);
        }
    }
    pthread_mutex_unlock(&context->mutex);
    return loop_fails("context_stop");
}

static int32_t loop_context_destroy(struct na_plugin_context *context)
{
    pthread_mutex_lock(&loop_mutex);
    context->na_class->contexts[context->id] = NULL;
    pthread_mutex_unlock(&loop_mutex);
    while (context->inbox != NULL) {
        struct loop_message *message = context->inbox;

        context->inbox = message->next;
        free(message);
    }
    if (context->fd >= 0)
        close(context->fd);
    pthread_cond_destroy(&context->cond);
    pthread_mutex_destroy(&context->mutex);
    loop_host->mem_free(context);
    loop_count(-1);
    return loop_fails("context_destroy");
}

static int32_t loop_op_initialize(struct na_plugin_class *na_class, void *op)
{
    (void) na_class;
    (void) op;
    if (loop_fails("op_initialize") == 0)
        loop_count(1);
    return loop_fails("op_initialize");
}

static void loop_op_finalize(struct na_plugin_class *na_class, void *op)
{
    (void) na_class;
    (void) op;
    loop_count(-1);
}

struct na_plugin_addr *loop_addr_make(uint32_t number)
{
    struct na_plugin_addr *addr = calloc(1, sizeof(*addr));

    if (addr != NULL) {
        addr->number = number;
        atomic_init(&addr->references, 1);
        loop_count(1);
    }
    return addr;
}

static int32_t addr_return(struct na_plugin_addr *addr, struct na_plugin_addr **addr_p)
{
    *addr_p = addr;
    return addr != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
}

static int32_t loop_addr_lookup(struct na_plugin_class *na_class, const char *name,
                                struct na_plugin_addr **addr_p)
{
    const char *digits = strstr(name, "://");
    char *end;
    unsigned long number;
    int32_t status = loop_fails("addr_lookup");

    (void) na_class;
    if (status != 0)
        return status;
    digits = digits != NULL ? digits + 3 : name;
    number = strtoul(digits, &end, 10);
    if (end == digits || *end != '\0')
        return NA_PLUGIN_INVALID_ARG;
    pthread_mutex_lock(&loop_mutex);
    if (number >= CLASSES_MAX || loop_classes[number] == NULL)
        status = NA_PLUGIN_NOENTRY;
    pthread_mutex_unlock(&loop_mutex);
    return status != 0 ? status : addr_return(loop_addr_make((uint32_t) number), addr_p);
}

static void loop_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    if (atomic_fetch_sub(&addr->references, 1) == 1) {
        free(addr);
        loop_count(-1);
    }
}

static int32_t loop_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                             struct na_plugin_addr **addr_p)
{
    (void) na_class;
    if (loop_fails("addr_dup") != 0)
        return loop_fails("addr_dup");
    atomic_fetch_add(&addr->references, 1);
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

static int32_t loop_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    if (loop_fails("addr_self") != 0)
        return loop_fails("addr_self");
    return addr_return(loop_addr_make(na_class->number), addr_p);
}

static uint32_t loop_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    return addr->number == na_class->number;
}

static uint32_t loop_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                                  struct na_plugin_addr *addr2)
{
    (void) na_class;
    return addr1->number == addr2->number;
}

static int32_t loop_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                   char *buf, uint64_t *size)
{
    char string[64];
    const uint64_t needed =
        (uint64_t) snprintf(string, sizeof(string), LOOP_NAME "+self://%u", addr->number) + 1;
    const int fits = buf == NULL || *size >= needed;

    (void) na_class;
    if (loop_fails("addr_to_string") != 0)
        return loop_fails("addr_to_string");
    if (loop_control.odd_strings == 1 && buf != NULL && fits) {
        memset(buf, 'a', *size);
        return NA_PLUGIN_SUCCESS;
    }
    *size = loop_control.odd_strings == 2 ? UINT64_MAX : needed;
    if (buf != NULL && fits)
        memcpy(buf, string, needed);
    return fits ? NA_PLUGIN_SUCCESS : NA_PLUGIN_OVERFLOW;
}

static int32_t loop_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    (void) addr;
    return loop_fails("addr_set_remove");
}

static uint64_t loop_addr_serialize_size(struct na_plugin_class *na_class,
                                         struct na_plugin_addr *addr)
{
    (void) na_class;
    return sizeof(addr->number);
}

static int32_t loop_addr_serialize(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                   void *buf, uint64_t size)
{
    (void) na_class;
    if (size < sizeof(addr->number))
        return NA_PLUGIN_OVERFLOW;
    memcpy(buf, &addr->number, sizeof(addr->number));
    return loop_fails("addr_serialize");
}

static int32_t loop_addr_deserialize(struct na_plugin_class *na_class, const void *buf,
                                     uint64_t size, uint64_t flags, struct na_plugin_addr **addr_p)
{
    uint32_t number;

    (void) na_class;
    (void) flags;
    if (loop_fails("addr_deserialize") != 0)
        return loop_fails("addr_deserialize");
    if (size < sizeof(number))
        return NA_PLUGIN_OVERFLOW;
    memcpy(&number, buf, sizeof(number));
    return number < CLASSES_MAX ? addr_return(loop_addr_make(number), addr_p)
                                : NA_PLUGIN_PROTOCOL_ERROR;
}

#if NA_PLUGIN_ABI_MINOR >= 2
/*
 * The class's RMA is missing here, and device memory is a capability that the class does not have.
 */
static uint64_t loop_addr_capabilities(struct na_plugin_class *na_class,
                                       struct na_plugin_addr *addr)
{
    (void) na_class, (void) addr;
    return NA_PLUGIN_CAP_DEVICE_MEM;
}
#endif

#ifdef NA_PLUGIN_EXT_COUNTERS
static void loop_counters_get(struct na_plugin_class *na_class, na_plugin_counter_fn report,
                              void *arg)
{
    char name[32];

    (void) na_class;
    report(arg, "wakes", atomic_load(&loop_control.wakes));
    for (uint32_t i = 0; i < loop_control.more_counters; i++) {
        (void) snprintf(name, sizeof(name), "more_%u", i);
        report(arg, name, i);
    }
    if (loop_control.more_counters > 0) {
        report(arg, NULL, 1);
        report(arg, "two words", 1);
        report(arg, "a_name_that_is_longer_than_32_bytes", 1);
    }
}
#endif

static const void *loop_get_extension(const char *id)
{
    static const struct na_plugin_mem_segments mem_segments = {
        {sizeof(mem_segments), 0}, 4, loop_mem_create_segments};
    static const struct na_plugin_multi_recv multi_recv = {{sizeof(multi_recv), 0},
                                                           loop_msg_multi_recv};
    static const struct na_plugin_addr_serialize addr_serialize = {{sizeof(addr_serialize), 0},
                                                                   loop_addr_serialize_size,
                                                                   loop_addr_serialize,
                                                                   loop_addr_deserialize};

#ifdef NA_PLUGIN_EXT_COUNTERS
    static const struct na_plugin_counters counters = {{sizeof(counters), 0}, loop_counters_get};

    if (LOOP_EXTENSIONS && strcmp(id, NA_PLUGIN_EXT_COUNTERS) == 0)
        return &counters;
#endif
    if (strcmp(id, LOOP_CONTROL_ID) == 0)
        return &loop_control;
    if (LOOP_EXTENSIONS && strcmp(id, NA_PLUGIN_EXT_MEM_SEGMENTS) == 0)
        return &mem_segments;
    if (LOOP_EXTENSIONS && strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0)
        return &multi_recv;
    if (LOOP_EXTENSIONS && strcmp(id, NA_PLUGIN_EXT_ADDR_SERIALIZE) == 0)
        return &addr_serialize;
    return NULL;
}

int32_t na_plugin_entry_v1(const struct na_host *host_table, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    static const char *const names[] = {LOOP_NAME "-alias", NULL};
#if NA_PLUGIN_ABI_MINOR >= 2
    static const char *const options[] = {"depth", "way", NULL};
#endif
    static const struct na_plugin plugin = {
        .abi_version = NA_PLUGIN_ABI_VERSION,
        .size = sizeof(plugin),
        .name = LOOP_NAME,
        .version = "1.0",
        .description = "in-process loop for tests",
        .class_names = LOOP_EXTENSIONS ? names : NULL,
        .op_size = sizeof(struct loop_op),
        .op_align = 64,
#ifdef NA_PLUGIN_CAP_MEM_PER_SESSION
        .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_NO_THREADS | NA_PLUGIN_CAP_AUTHENTICATED |
                        NA_PLUGIN_CAP_ENCRYPTED | NA_PLUGIN_CAP_SECOND_KEY |
                        NA_PLUGIN_CAP_MEM_PER_SESSION,
#else
        .capabilities = NA_PLUGIN_CAP_RMA | NA_PLUGIN_CAP_NO_THREADS,
#endif
        .enumerate = loop_enumerate,
        .initialize = loop_initialize,
        .finalize = loop_finalize,
        .context_create = loop_context_create,
        .context_stop = loop_context_stop,
        .context_destroy = loop_context_destroy,
        .op_initialize = loop_op_initialize,
        .op_finalize = loop_op_finalize,
        .addr_lookup = loop_addr_lookup,
        .addr_free = loop_addr_free,
        .addr_dup = loop_addr_dup,
        .addr_self = loop_addr_self,
        .addr_is_self = loop_addr_is_self,
        .addr_compare = loop_addr_compare,
        .addr_to_string = loop_addr_to_string,
        .addr_set_remove = loop_addr_set_remove,
        .msg_init_unexpected = loop_msg_init_unexpected,
        .msg_send_unexpected = loop_msg_send_unexpected,
        .msg_recv_unexpected = loop_msg_recv_unexpected,
        .msg_send_expected = loop_msg_send_expected,
        .msg_recv_expected = loop_msg_recv_expected,
        .mem_create = loop_mem_create,
        .mem_destroy = loop_mem_destroy,
        .mem_register = loop_mem_register,
        .mem_deregister = loop_mem_deregister,
        .mem_serialize_size = loop_mem_serialize_size,
        .mem_serialize = loop_mem_serialize,
        .mem_deserialize = loop_mem_deserialize,
        .put = loop_put,
        .get = loop_get,
        .poll = loop_poll,
        .poll_wait = LOOP_WAIT == 2 ? loop_poll_wait : NULL,
        .poll_get_fd = LOOP_WAIT == 1 ? loop_poll_get_fd : NULL,
        .poll_try_wait = loop_poll_try_wait,
        .wake = loop_wake,
        .cancel = loop_cancel,
        .get_extension = loop_get_extension,
#if NA_PLUGIN_ABI_MINOR >= 2
        .cancel_trusted = loop_cancel_trusted,
        .option_names = LOOP_EXTENSIONS ? options : NULL,
        .addr_capabilities = LOOP_EXTENSIONS ? loop_addr_capabilities : NULL,
#endif
    };

    (void) reason_p;
    loop_host = host_table;
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}
