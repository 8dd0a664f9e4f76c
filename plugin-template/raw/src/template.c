/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the processes of a machine, over Unix datagrams, with na_plugin.h alone. The
 * table at the end has the functions that the core calls, in the order in which they are defined.
 *
 * An endpoint is a number whose low 16 bits are 0; the number of a context has its id there. Each
 * context has a socket named amalgam/template/<number> in the abstract name space. The kernel keeps
 * datagrams in order, loses none, names the sender, and refuses one when the receiver is full.
 */

#include <errno.h>
#include <na_plugin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the table prescribes the parameters */

#define NAME           "template" /* of na_template.so; addresses begin with it */
#define PROTOCOL       "unix"
#define URI            NAME "+" PROTOCOL "://"
#define MESSAGE_MAX    16384u /* largest message, in bytes */
#define DEFERRED_MAX   64u    /* unexpected messages that wait for a receive, in each context */
#define LOG_ERROR(...) na_plugin_log(host, 1, NAME, __func__, __LINE__, __VA_ARGS__)

/* An address is the endpoint's number itself, so that no object has to be counted or freed. */
#define ADDR(number) ((struct na_plugin_addr *) (uintptr_t) ((number) & ~UINT64_C(0xffff)))

struct header {      /* the first bytes of a datagram; both sides have the same byte order */
    uint64_t source; /* number of the sending context */
    uint32_t is_expected, tag;
};

struct operation { /* the plugin's part of an operation; the core allocates it */
    TAILQ_ENTRY(operation) entry;
    struct header header; /* of the message to send, or that an expected receive waits for */
    uint64_t dest;        /* number of the receiving context; 0: this is a receive */
    void *buf;
    uint64_t size;
};

struct message {
    struct header header;
    uint8_t content[MESSAGE_MAX];
    uint64_t size;
};

struct na_plugin_class {
    struct na_plugin_addr *self;
    bool no_retry;
};

struct na_plugin_context {
    const struct na_plugin_class *na_class;
    uint64_t number;
    int socket;
    bool stopped;
    uint32_t completed, first, end;
    TAILQ_HEAD(, operation) operations;    /* posted receives, and sends without room */
    struct message messages[DEFERRED_MAX]; /* a ring: deferred from `first` to `end` */
};

static const struct na_host *host;                        /* the core's functions */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all contexts */

static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const uint32_t flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL;
    const struct na_plugin_offer offer = {PROTOCOL, NULL, NULL, 1, flags};

    return protocol == NULL || strcmp(protocol, PROTOCOL) == 0 ? report(arg, &offer) : 0;
}

/* Accepts `template+unix://number` and `number` alone. */
static int32_t addr_lookup(struct na_plugin_class *na_class, const char *text,
                           struct na_plugin_addr **addr_p)
{
    const char *digits = text + (strncmp(text, URI, strlen(URI)) == 0 ? strlen(URI) : 0);

    *addr_p = ADDR(strtoull(digits, NULL, 16));
    if (strlen(digits) == 16 && strspn(digits, "0123456789abcdef") == 16 &&
        strcmp(digits + 12, "0000") == 0 && *addr_p != NULL)
        return NA_PLUGIN_SUCCESS;
    LOG_ERROR("'%.80s' is not 12 of 0-9a-f and 0000, as behind " URI, text);
    return NA_PLUGIN_INVALID_ARG;
}

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class = host->mem_alloc(sizeof(*na_class), 0);
    uint64_t number;

    if (na_class == NULL || getrandom(&number, sizeof(number), 0) < 0)
        return NA_PLUGIN_NOMEM;
    *class_p = na_class; /* the core calls finalize even after a failure */
    na_class->self = ADDR(number);
    na_class->no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    info->max_tag = UINT32_MAX;
    info->max_unexpected_size = info->max_expected_size = MESSAGE_MAX;
    info->capabilities = NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_NO_THREADS;
    if (init->address == NULL || init->address[0] == '\0')
        return NA_PLUGIN_SUCCESS;
    return addr_lookup(na_class, init->address, &na_class->self);
}

static int32_t finalize(struct na_plugin_class *na_class)
{
    host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* The kernel frees an abstract name when the process ends. */
static socklen_t socket_name(struct sockaddr_un *name, unsigned long long number)
{
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void) snprintf(name->sun_path + 1, 80, "amalgam/" NAME "/%016llx", number);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name->sun_path + 1));
}

static int32_t context_destroy(struct na_plugin_context *context)
{
    (void) close(context->socket);
    host->mem_free(context);
    return NA_PLUGIN_SUCCESS;
}

static int32_t context_create(struct na_plugin_class *na_class,
                              struct na_host_context *host_context, uint32_t id,
                              struct na_plugin_context **context_p)
{
    struct na_plugin_context *context = host->mem_alloc(sizeof(*context), 0);
    struct sockaddr_un name;
    int32_t status;

    if (context == NULL)
        return NA_PLUGIN_NOMEM;
    context->na_class = na_class;
    context->number = (uintptr_t) na_class->self + id;
    TAILQ_INIT(&context->operations);
    context->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *context_p = context;
    if (bind(context->socket, (struct sockaddr *) &name, socket_name(&name, context->number)) == 0)
        return NA_PLUGIN_SUCCESS;
    status = errno == EADDRINUSE ? NA_PLUGIN_ADDRINUSE : NA_PLUGIN_IO_ERROR;
    LOG_ERROR("no socket named %s: %s", name.sun_path + 1, strerror(errno));
    (void) context_destroy(context);
    return status;
}

/* Reports an operation. The host's functions never call back, so the lock may be held. */
static void complete(struct na_plugin_context *context, struct operation *op, int32_t status)
{
    TAILQ_REMOVE(&context->operations, op, entry);
    context->completed++;
    host->op_complete(op, status);
}

/* `which` may have just completed, so only its address is used to find it; NULL cancels all. */
static int32_t cancel(struct na_plugin_context *context, void *which)
{
    struct operation *op, *next;

    (void) pthread_mutex_lock(&mutex);
    context->stopped = context->stopped || which == NULL;
    for (op = TAILQ_FIRST(&context->operations); op != NULL; op = next) {
        next = TAILQ_NEXT(op, entry);
        if (which == NULL || op == which)
            complete(context, op, NA_PLUGIN_CANCELED);
    }
    (void) pthread_mutex_unlock(&mutex);
    return NA_PLUGIN_SUCCESS;
}

static int32_t context_stop(struct na_plugin_context *context)
{
    return cancel(context, NULL);
}

static void addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
}

static int32_t addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p)
{
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

static int32_t addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    return addr_dup(na_class, na_class->self, addr_p);
}

static uint32_t addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    return addr == na_class->self;
}

static uint32_t addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                             struct na_plugin_addr *addr2)
{
    return addr1 == addr2;
}

static int32_t addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    const uint64_t room = buf != NULL ? *size : 0;

    *size = sizeof(URI) + 16;
    (void) snprintf(buf, room, URI "%016llx", (unsigned long long) (uintptr_t) addr);
    return buf == NULL || room >= *size ? NA_PLUGIN_SUCCESS : NA_PLUGIN_OVERFLOW;
}

/* False while the send must wait for earlier sends to the same context, or for room there. */
static bool send_try(struct na_plugin_context *context, struct operation *op)
{
    struct iovec parts[2] = {{&op->header, sizeof(op->header)}, {op->buf, (size_t) op->size}};
    struct sockaddr_un name;
    struct msghdr datagram = {&name, socket_name(&name, op->dest), parts, 2, NULL, 0, 0};
    const struct operation *other = TAILQ_FIRST(&context->operations);
    ssize_t ret;

    while (other->dest != op->dest)
        other = TAILQ_NEXT(other, entry);
    if (other != op)
        return false;
    ret = sendmsg(context->socket, &datagram, MSG_NOSIGNAL);
    if (ret < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR))
        return false;
    complete(context, op, ret < 0 ? NA_PLUGIN_HOSTUNREACH : NA_PLUGIN_SUCCESS);
    return true;
}

/* False when an unexpected message must wait for a receive. Expected ones are dropped then. */
static bool deliver(struct na_plugin_context *context, const struct message *message)
{
    const struct header header = message->header;
    struct operation *op = TAILQ_FIRST(&context->operations);

    while (op != NULL &&
           (op->dest != 0 || op->header.is_expected != header.is_expected ||
            (header.is_expected != 0 && memcmp(&op->header, &header, sizeof(header)))))
        op = TAILQ_NEXT(op, entry);
    if (op == NULL)
        return header.is_expected != 0;
    if (message->size > op->size) {
        complete(context, op, NA_PLUGIN_MSGSIZE);
        return true;
    }
    if (message->size > 0)
        memcpy(op->buf, message->content, message->size);
    TAILQ_REMOVE(&context->operations, op, entry);
    context->completed++;
    host->op_complete_recv(op, NA_PLUGIN_SUCCESS, message->size,
                           header.is_expected != 0 ? NULL : ADDR(header.source), header.tag);
    return true;
}

/* Returns -1 when there is no datagram, and 0 for one to drop: any process may send any bytes, so
 * `source` must be the number of the socket that the kernel names as the sender. */
static int message_read(struct na_plugin_context *context, struct message *message)
{
    struct sockaddr_un sender, name;
    socklen_t length = sizeof(sender);
    const ssize_t size = recvfrom(context->socket, message, offsetof(struct message, size),
                                  MSG_TRUNC, (struct sockaddr *) &sender, &length);

    if (size < (ssize_t) sizeof(message->header) ||
        (uint64_t) size > offsetof(struct message, size))
        return size < 0 ? -1 : 0;
    message->size = (uint64_t) size - sizeof(message->header);
    return ADDR(message->header.source) != NULL &&
           socket_name(&name, message->header.source) == length &&
           memcmp(&name, &sender, length) == 0;
}

/* While all places are taken the socket is not read: when it is full, the peers' sends wait. */
static void receive(struct na_plugin_context *context)
{
    while (context->first != context->end &&
           deliver(context, &context->messages[context->first % DEFERRED_MAX]))
        context->first++;
    for (uint32_t left = DEFERRED_MAX - (context->end - context->first); left > 0; left--) {
        struct message *message = &context->messages[context->end % DEFERRED_MAX];
        const int ret = message_read(context, message);

        if (ret < 0)
            return;
        context->end += ret > 0 && !deliver(context, message);
    }
}

static int32_t post(struct na_plugin_context *context, struct operation *op, struct header header,
                    uint64_t dest, const void *buf, uint64_t size)
{
    int32_t status = NA_PLUGIN_FAULT;

    (void) pthread_mutex_lock(&mutex);
    if (!context->stopped) {
        *op = (struct operation){{0}, header, dest, (void *) (uintptr_t) buf, size};
        TAILQ_INSERT_TAIL(&context->operations, op, entry);
        status = NA_PLUGIN_SUCCESS;
        if (dest == 0) {
            receive(context);
        } else if (!send_try(context, op) && context->na_class->no_retry) {
            TAILQ_REMOVE(&context->operations, op, entry);
            status = NA_PLUGIN_AGAIN;
        }
    }
    (void) pthread_mutex_unlock(&mutex);
    return status;
}

#define SEND(name, is_expected)                                                                   \
    static int32_t name(struct na_plugin_context *context, void *op, const void *buf,             \
                        uint64_t size, void *data, struct na_plugin_addr *dest, uint32_t dest_id, \
                        uint32_t tag)                                                             \
    {                                                                                             \
        return post(context, op, (struct header){context->number, is_expected, tag},              \
                    (uintptr_t) dest + dest_id, buf, size);                                       \
    }
SEND(msg_send_unexpected, 0)
SEND(msg_send_expected, 1)

static int32_t msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *data)
{
    return post(context, op, (struct header){0}, 0, buf, size);
}

static int32_t msg_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *source,
                                 uint32_t source_id, uint32_t tag)
{
    return post(context, op, (struct header){(uintptr_t) source + source_id, 1, tag}, 0, buf, size);
}

static int32_t progress(struct na_plugin_context *context, uint32_t *count)
{
    struct operation *op, *next;

    (void) pthread_mutex_lock(&mutex);
    receive(context);
    for (op = TAILQ_FIRST(&context->operations); op != NULL; op = next) {
        next = TAILQ_NEXT(op, entry);
        if (op->dest != 0)
            (void) send_try(context, op);
    }
    *count += context->completed;
    context->completed = 0;
    (void) pthread_mutex_unlock(&mutex);
    return NA_PLUGIN_SUCCESS;
}

static const struct na_plugin plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = NAME,
    .version = "0.1.0",
    .description = "Messages over Unix datagrams between the processes of a machine",
    .op_size = sizeof(struct operation),
    .op_align = _Alignof(struct operation),
    .capabilities = NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_NO_THREADS,
    .enumerate = enumerate,
    .initialize = initialize,
    .finalize = finalize,
    .context_create = context_create,
    .context_stop = context_stop,
    .context_destroy = context_destroy,
    .addr_lookup = addr_lookup,
    .addr_free = addr_free,
    .addr_dup = addr_dup,
    .addr_self = addr_self,
    .addr_is_self = addr_is_self,
    .addr_compare = addr_compare,
    .addr_to_string = addr_to_string,
    .msg_send_unexpected = msg_send_unexpected,
    .msg_recv_unexpected = msg_recv_unexpected,
    .msg_send_expected = msg_send_expected,
    .msg_recv_expected = msg_recv_expected,
    .poll = progress,
    .cancel = cancel,
};

int32_t na_plugin_entry_v1(const struct na_host *given, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    host = given; /* uses ABI 1.0 only, so any minor version will do */
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}
