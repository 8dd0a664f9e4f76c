/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport between the classes of one process, to exercise the core. It obeys struct loop_control. Built
 * several times: LOOP_NAME, LOOP_WAIT (0: nothing, 1: descriptor, 2: poll_wait), LOOP_EXTENSIONS. */

#include "loop_control.h"
#include "na_plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CLASSES_MAX  16
#define CONTEXTS_MAX 8
#define MESSAGE_MAX  4096
#define TAG_MAX      65535u

enum loop_kind { SEND, RECV_UNEXPECTED, RECV_MULTI, RECV_EXPECTED, TRANSFER };

/* The private part of an operation. */
struct loop_op {
    struct loop_op *next;
    enum loop_kind kind;
    char *buf;
    uint64_t size, used;
    uint32_t tag, source_class, source_context;
};

struct loop_message {
    struct loop_message *next;
    uint32_t source_class, source_context, tag, expected;
    uint64_t size;
    char content[MESSAGE_MAX];
};

struct na_plugin_context {
    struct na_plugin_class *na_class;
    uint32_t id, stopped;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int fd;
    struct loop_op *posted, *done, *held; /* receives, finished ones, sends that are held back */
    struct loop_message *inbox;
    uint32_t woken;
};

struct na_plugin_class {
    uint32_t number;
    struct na_plugin_context *contexts[CONTEXTS_MAX];
};

struct na_plugin_addr {
    atomic_uint references;
    uint32_t number;
};

struct na_plugin_mem {
    struct na_plugin_segment segments[4];
    uint64_t count;
    uint32_t flags;
};

static struct loop_control control = {.size = sizeof(control)};
static const struct na_host *host;
static pthread_mutex_t classes_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct na_plugin_class *classes[CLASSES_MAX];

/* What a function returns before it does anything. */
static int32_t fails(const char *function)
{
    return control.fail != NULL && strcmp(control.fail, function) == 0 ? control.fail_status
                                                                       : NA_PLUGIN_SUCCESS;
}

static void count(int change)
{
    atomic_fetch_add(&control.objects, (unsigned int) change);
}

static void append(struct loop_op **list, struct loop_op *op)
{
    op->next = NULL;
    while (*list != NULL)
        list = &(*list)->next;
    *list = op;
}

static int take(struct loop_op **list, const struct loop_op *op)
{
    for (; *list != NULL; list = &(*list)->next) {
        if (*list == op) {
            *list = op->next;
            return 1;
        }
    }
    return 0;
}

static void complete(struct loop_op *op, int32_t status)
{
    host->op_complete(op, status);
    if (control.complete_twice)
        host->op_complete(op, status);
}

static void notify(struct na_plugin_context *context)
{
    const uint64_t one = 1;

    context->woken = 1;
    pthread_cond_broadcast(&context->cond);
    if (context->fd >= 0 && write(context->fd, &one, sizeof(one)) < 0)
        host->log(NA_PLUGIN_LOG_DEBUG, LOOP_NAME, __func__, __LINE__, "already readable");
}

static int32_t loop_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const struct na_plugin_offer offers[] = {
        {"self", "loop0", NULL, 10, NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL},
        {"self", "loop1", NULL, 10, NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL},
        {"absent", NULL, "there is no such device", 90, 0},
    };
    int32_t status = fails("enumerate");

    for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]) && status == 0; i++)
        if (protocol == NULL || strcmp(protocol, offers[i].protocol) == 0)
            status = report(arg, &offers[i]);
    return status;
}

static int32_t loop_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                               struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class;
    uint32_t number = 0;

    (void) host_class;
    if (fails("initialize_partly") == 0 && fails("initialize") != 0)
        return fails("initialize");
    if (init->address != NULL && strcmp(init->address, "bad") == 0)
        return NA_PLUGIN_INVALID_ARG;
    na_class = host->mem_alloc(sizeof(*na_class), 64);
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    pthread_mutex_lock(&classes_mutex);
    while (number < CLASSES_MAX && classes[number] != NULL)
        number++;
    if (number < CLASSES_MAX)
        classes[number] = na_class;
    pthread_mutex_unlock(&classes_mutex);
    na_class->number = number;
    count(1);
    *class_p = na_class;
    info->max_tag = TAG_MAX;
    info->capabilities = NA_PLUGIN_CAP_RMA;
    info->max_unexpected_size = MESSAGE_MAX;
    info->max_expected_size = MESSAGE_MAX / 2;
    info->unexpected_header_size = 4;
    info->max_rma_size = 1 << 20;
    if (fails("limits") != 0)
        info->max_unexpected_size = 4;
    return number < CLASSES_MAX ? fails("initialize_partly") : NA_PLUGIN_NOMEM;
}

static int32_t loop_finalize(struct na_plugin_class *na_class)
{
    pthread_mutex_lock(&classes_mutex);
    if (na_class->number < CLASSES_MAX)
        classes[na_class->number] = NULL;
    pthread_mutex_unlock(&classes_mutex);
    host->mem_free(na_class);
    count(-1);
    return fails("finalize");
}

static int32_t loop_context_create(struct na_plugin_class *na_class,
                                   struct na_host_context *host_context, uint32_t id,
                                   struct na_plugin_context **context_p)
{
    struct na_plugin_context *context;
    pthread_condattr_t attr;

    (void) host_context;
    if (fails("context_create") != 0)
        return fails("context_create");
    context = host->mem_alloc(sizeof(*context), 0);
    if (context == NULL || id >= CONTEXTS_MAX) {
        host->mem_free(context);
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
    pthread_mutex_lock(&classes_mutex);
    na_class->contexts[id] = context;
    pthread_mutex_unlock(&classes_mutex);
    count(1);
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

            *lists[i] = op->next;
            if (!control.leave_on_stop)
                complete(op, i == 1 ? NA_PLUGIN_SUCCESS : NA_PLUGIN_CANCELED);
        }
    }
    pthread_mutex_unlock(&context->mutex);
    return fails("context_stop");
}

static int32_t loop_context_destroy(struct na_plugin_context *context)
{
    pthread_mutex_lock(&classes_mutex);
    context->na_class->contexts[context->id] = NULL;
    pthread_mutex_unlock(&classes_mutex);
    while (context->inbox != NULL) {
        struct loop_message *message = context->inbox;

        context->inbox = message->next;
        free(message);
    }
    if (context->fd >= 0)
        close(context->fd);
    pthread_cond_destroy(&context->cond);
    pthread_mutex_destroy(&context->mutex);
    host->mem_free(context);
    count(-1);
    return fails("context_destroy");
}

static int32_t loop_op_initialize(struct na_plugin_class *na_class, void *op)
{
    (void) na_class;
    (void) op;
    if (fails("op_initialize") == 0)
        count(1);
    return fails("op_initialize");
}

static void loop_op_finalize(struct na_plugin_class *na_class, void *op)
{
    (void) na_class;
    (void) op;
    count(-1);
}

static struct na_plugin_addr *addr_make(uint32_t number)
{
    struct na_plugin_addr *addr = calloc(1, sizeof(*addr));

    if (addr != NULL) {
        addr->number = number;
        atomic_init(&addr->references, 1);
        count(1);
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
    int32_t status = fails("addr_lookup");

    (void) na_class;
    if (status != 0)
        return status;
    digits = digits != NULL ? digits + 3 : name;
    number = strtoul(digits, &end, 10);
    if (end == digits || *end != '\0')
        return NA_PLUGIN_INVALID_ARG;
    pthread_mutex_lock(&classes_mutex);
    if (number >= CLASSES_MAX || classes[number] == NULL)
        status = NA_PLUGIN_NOENTRY;
    pthread_mutex_unlock(&classes_mutex);
    return status != 0 ? status : addr_return(addr_make((uint32_t) number), addr_p);
}

static void loop_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    if (atomic_fetch_sub(&addr->references, 1) == 1) {
        free(addr);
        count(-1);
    }
}

static int32_t loop_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                             struct na_plugin_addr **addr_p)
{
    (void) na_class;
    if (fails("addr_dup") != 0)
        return fails("addr_dup");
    atomic_fetch_add(&addr->references, 1);
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

static int32_t loop_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    if (fails("addr_self") != 0)
        return fails("addr_self");
    return addr_return(addr_make(na_class->number), addr_p);
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
    if (fails("addr_to_string") != 0)
        return fails("addr_to_string");
    *size = needed;
    if (buf != NULL && fits)
        memcpy(buf, string, needed);
    return fits ? NA_PLUGIN_SUCCESS : NA_PLUGIN_OVERFLOW;
}

static int32_t loop_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    (void) addr;
    return fails("addr_set_remove");
}

static int32_t loop_msg_init_unexpected(struct na_plugin_class *na_class, void *buf, uint64_t size)
{
    (void) na_class;
    (void) size;
    memcpy(buf, "loop", 4);
    return fails("msg_init_unexpected");
}

static int32_t send_message(struct na_plugin_context *context, struct loop_op *op, const void *buf,
                            uint64_t size, uint32_t dest_class, uint32_t dest_id,
                            struct loop_message *message)
{
    struct na_plugin_context *dest = NULL;
    struct loop_message **link;

    message->source_class = context->na_class->number;
    message->source_context = context->id;
    message->size = size;
    memcpy(message->content, buf, size);
    op->kind = SEND;
    pthread_mutex_lock(&classes_mutex);
    if (classes[dest_class] != NULL && dest_id < CONTEXTS_MAX)
        dest = classes[dest_class]->contexts[dest_id];
    if (dest != NULL && !control.hold) {
        pthread_mutex_lock(&dest->mutex);
        for (link = &dest->inbox; *link != NULL; link = &(*link)->next)
            ;
        *link = message;
        notify(dest);
        pthread_mutex_unlock(&dest->mutex);
    } else {
        free(message);
    }
    pthread_mutex_unlock(&classes_mutex);
    if (dest == NULL)
        return NA_PLUGIN_HOSTUNREACH;
    if (control.complete_now) {
        complete(op, NA_PLUGIN_SUCCESS);
        return control.refuse_after ? NA_PLUGIN_AGAIN : NA_PLUGIN_SUCCESS;
    }
    pthread_mutex_lock(&context->mutex);
    append(control.hold ? &context->held : &context->done, op);
    notify(context);
    pthread_mutex_unlock(&context->mutex);
    return NA_PLUGIN_SUCCESS;
}

static int32_t post_send(struct na_plugin_context *context, struct loop_op *op, const void *buf,
                         uint64_t size, struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag,
                         uint32_t expected, const char *function)
{
    struct loop_message *message;

    if (fails(function) != 0)
        return fails(function);
    if (context->stopped)
        return NA_PLUGIN_FAULT;
    message = calloc(1, sizeof(*message));
    if (message == NULL)
        return NA_PLUGIN_NOMEM;
    message->tag = tag;
    message->expected = expected;
    return send_message(context, op, buf, size, dest->number, dest_id, message);
}

static int32_t loop_msg_send_unexpected(struct na_plugin_context *context, void *op,
                                        const void *buf, uint64_t size, void *data,
                                        struct na_plugin_addr *dest, uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return post_send(context, op, buf, size, dest, dest_id, tag, 0, "msg_send_unexpected");
}

static int32_t loop_msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                                      uint64_t size, void *data, struct na_plugin_addr *dest,
                                      uint32_t dest_id, uint32_t tag)
{
    (void) data;
    return post_send(context, op, buf, size, dest, dest_id, tag, 1, "msg_send_expected");
}

static int32_t post_receive(struct na_plugin_context *context, struct loop_op *op,
                            enum loop_kind kind, void *buf, uint64_t size, const char *function)
{
    int32_t status = fails(function);

    op->kind = kind;
    op->buf = buf;
    op->size = size;
    op->used = 0;
    pthread_mutex_lock(&context->mutex);
    if (status == 0 && context->stopped)
        status = NA_PLUGIN_FAULT;
    if (status == 0) {
        append(&context->posted, op);
        notify(context);
    }
    pthread_mutex_unlock(&context->mutex);
    return status;
}

static int32_t loop_msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                        uint64_t size, void *data)
{
    (void) data;
    return post_receive(context, op, RECV_UNEXPECTED, buf, size, "msg_recv_unexpected");
}

static int32_t loop_msg_multi_recv(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data)
{
    (void) data;
    return post_receive(context, op, RECV_MULTI, buf, size, "msg_multi_recv_unexpected");
}

static int32_t loop_msg_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                                      uint64_t size, void *data, struct na_plugin_addr *source,
                                      uint32_t source_id, uint32_t tag)
{
    struct loop_op *receive = op;

    (void) data;
    receive->tag = tag;
    receive->source_class = source->number;
    receive->source_context = source_id;
    return post_receive(context, receive, RECV_EXPECTED, buf, size, "msg_recv_expected");
}

static int matches(const struct loop_op *op, const struct loop_message *message)
{
    if (!message->expected)
        return op->kind == RECV_UNEXPECTED || op->kind == RECV_MULTI;
    return op->kind == RECV_EXPECTED && op->tag == message->tag &&
           op->source_class == message->source_class &&
           op->source_context == message->source_context;
}

/* Gives a message to a receive. 0: it was not taken. */
static int deliver(struct loop_op *op, struct loop_op **link, const struct loop_message *message)
{
    const int32_t status = message->size > op->size - op->used ? NA_PLUGIN_MSGSIZE : 0;
    const uint64_t size = status != 0 ? 0 : message->size + (control.lie_about_size ? 100000 : 0);
    struct na_plugin_addr *source = NULL;
    char *where = op->buf + op->used;
    uint32_t last;

    if (!message->expected && status == 0 && !control.lie_no_source)
        source = addr_make(message->source_class);
    if (status == 0)
        memcpy(where, message->content, message->size);
    if (op->kind == RECV_MULTI) {
        last = status != 0 || op->size - op->used - message->size < MESSAGE_MAX;
        if (last)
            *link = op->next;
        op->used += message->size;
        return host->op_complete_multi_recv(op, status, where, size, source, message->tag, last) == 0;
    }
    *link = op->next;
    host->op_complete_recv(op, status, size, source, message->expected ? 0 : message->tag);
    if (control.complete_twice)
        host->op_complete_recv(op, status, size, NULL, message->tag);
    return 1;
}

static int32_t loop_poll(struct na_plugin_context *context, uint32_t *completed)
{
    struct loop_message **message_link = &context->inbox;
    uint64_t value;

    pthread_mutex_lock(&context->mutex);
    context->woken = 0;
    if (context->fd >= 0 && read(context->fd, &value, sizeof(value)) < 0)
        value = 0;
    while (*message_link != NULL) {
        struct loop_message *message = *message_link;
        struct loop_op **link = &context->posted;

        while (*link != NULL && !matches(*link, message))
            link = &(*link)->next;
        if (*link == NULL ? !message->expected : !deliver(*link, link, message)) {
            message_link = &message->next;
            continue;
        }
        *message_link = message->next;
        free(message);
        (*completed)++;
    }
    while (context->done != NULL) {
        struct loop_op *op = context->done;

        context->done = op->next;
        complete(op, NA_PLUGIN_SUCCESS);
        (*completed)++;
    }
    pthread_mutex_unlock(&context->mutex);
    return fails("poll");
}

static int32_t loop_poll_get_fd(struct na_plugin_context *context)
{
    return context->fd;
}

static uint32_t loop_poll_try_wait(struct na_plugin_context *context)
{
    uint32_t safe;

    pthread_mutex_lock(&context->mutex);
    safe = !context->woken;
    pthread_mutex_unlock(&context->mutex);
    return safe;
}

static int32_t loop_poll_wait(struct na_plugin_context *context, uint32_t timeout_ms,
                              uint32_t *completed)
{
    struct timespec end;
    int error = 0;

    if (fails("poll_wait") != 0)
        return fails("poll_wait");
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += (long) (timeout_ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    pthread_mutex_lock(&context->mutex);
    while (!context->woken && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&context->cond, &context->mutex, &end);
    context->woken = 0;
    pthread_mutex_unlock(&context->mutex);
    loop_poll(context, completed);
    return error == ETIMEDOUT && *completed == 0 ? NA_PLUGIN_TIMEOUT : NA_PLUGIN_SUCCESS;
}

static void loop_wake(struct na_plugin_context *context)
{
    atomic_fetch_add(&control.wakes, 1);
    pthread_mutex_lock(&context->mutex);
    notify(context);
    pthread_mutex_unlock(&context->mutex);
}

static int32_t loop_cancel(struct na_plugin_context *context, void *op)
{
    int32_t status = fails("cancel");

    pthread_mutex_lock(&context->mutex);
    if (status == 0 && (take(&context->posted, op) || take(&context->held, op)))
        complete(op, NA_PLUGIN_CANCELED);
    pthread_mutex_unlock(&context->mutex);
    return status;
}

static int32_t mem_make(const struct na_plugin_segment *segments, uint64_t segment_count,
                        uint32_t flags, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem *mem = calloc(1, sizeof(*mem));

    if (mem == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(mem->segments, segments, (size_t) segment_count * sizeof(*segments));
    mem->count = segment_count;
    mem->flags = flags;
    count(1);
    *mem_p = mem;
    return NA_PLUGIN_SUCCESS;
}

static int32_t loop_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                               uint32_t flags, struct na_plugin_mem **mem_p)
{
    const struct na_plugin_segment segment = {base, length};

    (void) na_class;
    return fails("mem_create") != 0 ? fails("mem_create") : mem_make(&segment, 1, flags, mem_p);
}

static int32_t loop_mem_create_segments(struct na_plugin_class *na_class,
                                        const struct na_plugin_segment *segments,
                                        uint64_t segment_count, uint32_t flags,
                                        struct na_plugin_mem **mem_p)
{
    (void) na_class;
    return fails("mem_create_segments") != 0 ? fails("mem_create_segments")
                                             : mem_make(segments, segment_count, flags, mem_p);
}

static void loop_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    free(mem);
    count(-1);
}

static int32_t loop_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                 uint32_t mem_type, uint64_t device)
{
    (void) na_class;
    (void) mem;
    (void) mem_type;
    (void) device;
    return fails("mem_register");
}

static int32_t loop_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    (void) mem;
    return fails("mem_deregister");
}

static uint64_t loop_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem)
{
    (void) na_class;
    return sizeof(*mem);
}

static int32_t loop_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                  void *buf, uint64_t size)
{
    (void) na_class;
    if (fails("mem_serialize") == 0 && size >= sizeof(*mem))
        memcpy(buf, mem, sizeof(*mem));
    return fails("mem_serialize");
}

static int32_t loop_mem_deserialize(struct na_plugin_class *na_class, const void *buf,
                                    uint64_t size, struct na_plugin_mem **mem_p)
{
    struct na_plugin_mem mem;

    (void) na_class;
    if (fails("mem_deserialize") != 0)
        return fails("mem_deserialize");
    if (size != sizeof(mem))
        return NA_PLUGIN_PROTOCOL_ERROR;
    memcpy(&mem, buf, sizeof(mem));
    return mem_make(mem.segments, mem.count, mem.flags, mem_p);
}

static char *mem_at(const struct na_plugin_mem *mem, uint64_t offset)
{
    for (uint64_t i = 0; i < mem->count; i++) {
        if (offset < mem->segments[i].length)
            return (char *) mem->segments[i].base + offset;
        offset -= mem->segments[i].length;
    }
    return NULL;
}

static int32_t transfer(struct na_plugin_context *context, struct loop_op *op,
                        const struct na_plugin_mem *to, uint64_t to_offset,
                        const struct na_plugin_mem *from, uint64_t from_offset, uint64_t length,
                        const char *function)
{
    if (fails(function) != 0)
        return fails(function);
    for (uint64_t i = 0; i < length; i++)
        *mem_at(to, to_offset + i) = *mem_at(from, from_offset + i);
    op->kind = TRANSFER;
    pthread_mutex_lock(&context->mutex);
    append(&context->done, op);
    notify(context);
    pthread_mutex_unlock(&context->mutex);
    return NA_PLUGIN_SUCCESS;
}

static int32_t loop_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                        uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                        uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) addr;
    (void) remote_id;
    return transfer(context, op, remote, remote_offset, local, local_offset, length, "put");
}

static int32_t loop_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                        uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                        uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id)
{
    (void) addr;
    (void) remote_id;
    return transfer(context, op, local, local_offset, remote, remote_offset, length, "get");
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
    return fails("addr_serialize");
}

static int32_t loop_addr_deserialize(struct na_plugin_class *na_class, const void *buf,
                                     uint64_t size, uint64_t flags, struct na_plugin_addr **addr_p)
{
    uint32_t number;

    (void) na_class;
    (void) flags;
    if (fails("addr_deserialize") != 0)
        return fails("addr_deserialize");
    if (size < sizeof(number))
        return NA_PLUGIN_OVERFLOW;
    memcpy(&number, buf, sizeof(number));
    return number < CLASSES_MAX ? addr_return(addr_make(number), addr_p)
                                : NA_PLUGIN_PROTOCOL_ERROR;
}

static const void *loop_get_extension(const char *id)
{
    static const struct na_plugin_mem_segments mem_segments = {
        {sizeof(mem_segments), 0}, 4, loop_mem_create_segments};
    static const struct na_plugin_multi_recv multi_recv = {{sizeof(multi_recv), 0},
                                                           loop_msg_multi_recv};
    static const struct na_plugin_addr_serialize addr_serialize = {
        {sizeof(addr_serialize), 0},
        loop_addr_serialize_size,
        loop_addr_serialize,
        loop_addr_deserialize};

    if (strcmp(id, LOOP_CONTROL_ID) == 0)
        return &control;
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
    static const struct na_plugin plugin = {
        .abi_version = NA_PLUGIN_ABI_VERSION,
        .size = sizeof(plugin),
        .name = LOOP_NAME,
        .version = "1.0",
        .description = "in-process loop for tests",
        .class_names = LOOP_EXTENSIONS ? names : NULL,
        .op_size = sizeof(struct loop_op),
        .op_align = 64,
        .capabilities = NA_PLUGIN_CAP_RMA,
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
    };

    (void) reason_p;
    host = host_table;
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}
