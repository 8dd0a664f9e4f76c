/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages between the processes of a machine, over Unix datagrams, on na_plugin.h alone. The table
 * at the end names what the core calls; functions are in its order, helpers follow their callers.
 *
 * An endpoint is a number, a context the socket amalgam/template/<endpoint>/<context> in the
 * abstract name space. The kernel keeps the order of datagrams, loses none, says who sent one, and
 * sends none that has no room at its receiver: order, identity and back-pressure are the fabric's.
 */

#include <errno.h>
#include <inttypes.h>
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

#define NAME            "template" /* of the file na_template.so, of the class, of addresses */
#define PROTOCOL        "unix"
#define URI             NAME "+" PROTOCOL "://"
#define DIGITS          16     /* of an endpoint's number, hexadecimal */
#define MESSAGE_MAX     16384u /* bytes */
#define DEFERRED_MAX    64u    /* unexpected messages that wait for a receive, in each context */
#define READS_MAX       64     /* in one poll, which has to end */
#define MAGIC           0x31776172u
#define CAPABILITIES    (NA_PLUGIN_CAP_CANCEL_SEND | NA_PLUGIN_CAP_NO_THREADS)
#define LOG(level, ...) na_plugin_log(host, level, NAME, __func__, __LINE__, __VA_ARGS__)

enum { /* kinds of messages */
    UNEXPECTED,
    EXPECTED,
    FOREIGN /* from no peer: dropped */
};

enum { /* operations */
    SEND,
    RECEIVE
};

/* In front of each datagram. Both processes are on one machine: there is no byte order. */
struct header {
    uint32_t magic, kind, tag;
};

/* Where a message comes from or goes to. */
struct place {
    uint64_t endpoint;
    uint32_t context;
};

/* The plugin's part of an operation, for which the core has made room. */
struct operation {
    TAILQ_ENTRY(operation) entry;
    uint32_t type;
    struct header header;
    struct place peer;
    void *buf;
    uint64_t size;
};

struct message {
    struct header header;
    struct place source;
    uint64_t size;
    uint8_t content[MESSAGE_MAX];
};

struct na_plugin_addr {
    LIST_ENTRY(na_plugin_addr) entry;
    uint64_t endpoint;
};

struct na_plugin_class {
    uint64_t endpoint;
    bool no_retry;
    pthread_mutex_t lock; /* of the addresses; taken behind that of a context */
    LIST_HEAD(, na_plugin_addr) addresses;
};

struct na_plugin_context {
    struct na_plugin_class *na_class;
    int socket;
    pthread_mutex_t lock; /* of what follows */
    bool stopped;
    uint32_t completed, first, end;
    TAILQ_HEAD(, operation) operations;    /* posted receives, and sends that wait for room */
    struct message messages[DEFERRED_MAX]; /* a ring: from `first` to `end` they are deferred */
};

static const struct na_host *host; /* all that comes from the core */

static int32_t context_destroy(struct na_plugin_context *context);
static socklen_t socket_name(struct sockaddr_un *name, struct place place);
static int32_t endpoint_parse(const char *text, uint64_t *endpoint);
static int32_t addr_new(struct na_plugin_class *na_class, uint64_t endpoint,
                        struct na_plugin_addr **addr_p);
static void addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
static int32_t post(struct na_plugin_context *context, struct operation *op, uint32_t type,
                    struct header header, struct place peer, const void *buf, uint64_t size);
static void complete(struct na_plugin_context *context, struct operation *op, int32_t status);
static bool send_try(struct na_plugin_context *context, struct operation *op);
static void receive(struct na_plugin_context *context);
static bool message_read(struct na_plugin_context *context, struct message *message);
static bool sender_read(struct msghdr *datagram, struct place *source);
static bool message_deliver(struct na_plugin_context *context, const struct message *message);
static bool is_match(const struct operation *op, const struct message *message);
static bool is_same(struct place place1, struct place place2);

static int32_t enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    const uint32_t flags = NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL;
    const struct na_plugin_offer offer = {.protocol = PROTOCOL, .priority = 1, .flags = flags};
    const bool is_asked_for = protocol == NULL || strcmp(protocol, PROTOCOL) == 0;

    return is_asked_for ? report(arg, &offer) : NA_PLUGIN_SUCCESS;
}

static int32_t initialize(const struct na_plugin_init *init, struct na_host_class *unused,
                          struct na_plugin_class **class_p, struct na_plugin_class_info *info)
{
    struct na_plugin_class *na_class = host->mem_alloc(sizeof(*na_class), 0);

    (void) unused;
    if (na_class == NULL)
        return NA_PLUGIN_NOMEM;
    *class_p = na_class; /* finalize frees it, also when this function fails */
    (void) pthread_mutex_init(&na_class->lock, NULL);
    na_class->no_retry = (init->progress_mode & NA_PLUGIN_PROGRESS_NO_RETRY) != 0;
    info->max_tag = UINT32_MAX;
    info->max_unexpected_size = info->max_expected_size = MESSAGE_MAX;
    info->capabilities = CAPABILITIES;
    if (init->address != NULL && init->address[0] != '\0')
        return endpoint_parse(init->address, &na_class->endpoint);
    return getrandom(&na_class->endpoint, DIGITS / 2, 0) > 0 ? NA_PLUGIN_SUCCESS
                                                             : NA_PLUGIN_IO_ERROR;
}

/* Addresses that are left were forgotten. */
static int32_t finalize(struct na_plugin_class *na_class)
{
    while (!LIST_EMPTY(&na_class->addresses))
        addr_free(na_class, LIST_FIRST(&na_class->addresses));
    (void) pthread_mutex_destroy(&na_class->lock);
    host->mem_free(na_class);
    return NA_PLUGIN_SUCCESS;
}

/* Anybody on the machine can send there, so the kernel is asked to tell the user of each sender. */
static int32_t context_create(struct na_plugin_class *na_class, struct na_host_context *unused,
                              uint32_t id, struct na_plugin_context **context_p)
{
    struct na_plugin_context *context = host->mem_alloc(sizeof(*context), 0);
    const int on = 1;
    struct sockaddr_un name;
    const socklen_t length = socket_name(&name, (struct place){na_class->endpoint, id});

    (void) unused;
    if (context == NULL)
        return NA_PLUGIN_NOMEM;
    context->na_class = na_class;
    (void) pthread_mutex_init(&context->lock, NULL);
    TAILQ_INIT(&context->operations);
    context->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (context->socket < 0 ||
        setsockopt(context->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
        bind(context->socket, (struct sockaddr *) &name, length) != 0) {
        const int error = errno;

        LOG(NA_PLUGIN_LOG_ERROR, "no socket named %s: %s", name.sun_path + 1, strerror(error));
        (void) context_destroy(context);
        return error == EADDRINUSE ? NA_PLUGIN_ADDRINUSE : NA_PLUGIN_IO_ERROR;
    }
    *context_p = context;
    return NA_PLUGIN_SUCCESS;
}

static int32_t context_stop(struct na_plugin_context *context)
{
    struct operation *op;

    (void) pthread_mutex_lock(&context->lock);
    context->stopped = true;
    while ((op = TAILQ_FIRST(&context->operations)) != NULL)
        complete(context, op, NA_PLUGIN_CANCELED);
    (void) pthread_mutex_unlock(&context->lock);
    return NA_PLUGIN_SUCCESS;
}

static int32_t context_destroy(struct na_plugin_context *context)
{
    (void) close(context->socket);
    (void) pthread_mutex_destroy(&context->lock);
    host->mem_free(context);
    return NA_PLUGIN_SUCCESS;
}

/* An abstract name goes with its process, however that ends. */
static socklen_t socket_name(struct sockaddr_un *name, struct place place)
{
    char *path = name->sun_path;

    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void) snprintf(path + 1, sizeof(name->sun_path) - 1,
                    "amalgam/" NAME "/%016" PRIx64 "/%" PRIu32, place.endpoint, place.context);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path + 1));
}

/* An endpoint that is not there fails the first send. */
static int32_t addr_lookup(struct na_plugin_class *na_class, const char *text,
                           struct na_plugin_addr **addr_p)
{
    uint64_t endpoint;
    const int32_t status = endpoint_parse(text, &endpoint);

    return status == NA_PLUGIN_SUCCESS ? addr_new(na_class, endpoint, addr_p) : status;
}

static void addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) pthread_mutex_lock(&na_class->lock);
    LIST_REMOVE(addr, entry);
    (void) pthread_mutex_unlock(&na_class->lock);
    host->mem_free(addr);
}

static int32_t addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p)
{
    return addr_new(na_class, addr->endpoint, addr_p);
}

static int32_t addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    return addr_new(na_class, na_class->endpoint, addr_p);
}

static uint32_t addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    return addr->endpoint == na_class->endpoint;
}

static uint32_t addr_compare(struct na_plugin_class *unused, struct na_plugin_addr *addr1,
                             struct na_plugin_addr *addr2)
{
    (void) unused;
    return addr1->endpoint == addr2->endpoint;
}

static int32_t addr_to_string(struct na_plugin_class *unused, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    const uint64_t room = buf != NULL ? *size : 0;

    (void) unused;
    *size = sizeof(URI) + DIGITS;
    (void) snprintf(buf, room, URI "%016" PRIx64, addr->endpoint);
    return buf == NULL || room >= *size ? NA_PLUGIN_SUCCESS : NA_PLUGIN_OVERFLOW;
}

/* Takes `template+unix://number`, `unix://number`, and `number` alone. */
static int32_t endpoint_parse(const char *text, uint64_t *endpoint)
{
    static const char *const starts[] = {URI, PROTOCOL "://", ""};
    int i = 0;

    while (strncmp(text, starts[i], strlen(starts[i])) != 0)
        i++;
    text += strlen(starts[i]);
    *endpoint = strtoull(text, NULL, 16);
    if (strspn(text, "0123456789abcdef") == DIGITS && text[DIGITS] == '\0')
        return NA_PLUGIN_SUCCESS;
    LOG(NA_PLUGIN_LOG_ERROR, "'%.80s' is not %d digits of 0-9 and a-f, as behind " URI, text,
        DIGITS);
    return NA_PLUGIN_INVALID_ARG;
}

static int32_t addr_new(struct na_plugin_class *na_class, uint64_t endpoint,
                        struct na_plugin_addr **addr_p)
{
    struct na_plugin_addr *addr = host->mem_alloc(sizeof(*addr), 0);

    if (addr == NULL)
        return NA_PLUGIN_NOMEM;
    addr->endpoint = endpoint;
    (void) pthread_mutex_lock(&na_class->lock);
    LIST_INSERT_HEAD(&na_class->addresses, addr, entry);
    (void) pthread_mutex_unlock(&na_class->lock);
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

static int32_t msg_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                   uint64_t size, void *unused, struct na_plugin_addr *dest,
                                   uint32_t dest_id, uint32_t tag)
{
    const struct place peer = {dest->endpoint, dest_id};

    (void) unused;
    return post(context, op, SEND, (struct header){MAGIC, UNEXPECTED, tag}, peer, buf, size);
}

static int32_t msg_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *unused, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag)
{
    const struct place peer = {dest->endpoint, dest_id};

    (void) unused;
    return post(context, op, SEND, (struct header){MAGIC, EXPECTED, tag}, peer, buf, size);
}

static int32_t msg_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                   uint64_t size, void *unused)
{
    const struct place anybody = {0, 0};

    (void) unused;
    return post(context, op, RECEIVE, (struct header){MAGIC, UNEXPECTED, 0}, anybody, buf, size);
}

static int32_t msg_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *unused, struct na_plugin_addr *source,
                                 uint32_t source_id, uint32_t tag)
{
    const struct place peer = {source->endpoint, source_id};

    (void) unused;
    return post(context, op, RECEIVE, (struct header){MAGIC, EXPECTED, tag}, peer, buf, size);
}

static int32_t post(struct na_plugin_context *context, struct operation *op, uint32_t type,
                    struct header header, struct place peer, const void *buf, uint64_t size)
{
    int32_t status = NA_PLUGIN_SUCCESS;

    (void) pthread_mutex_lock(&context->lock);
    if (context->stopped) {
        (void) pthread_mutex_unlock(&context->lock);
        return NA_PLUGIN_FAULT;
    }
    *op = (struct operation){{0}, type, header, peer, (void *) (uintptr_t) buf, size};
    TAILQ_INSERT_TAIL(&context->operations, op, entry);
    if (type == RECEIVE) {
        receive(context);
    } else if (!send_try(context, op) && context->na_class->no_retry) {
        TAILQ_REMOVE(&context->operations, op, entry);
        status = NA_PLUGIN_AGAIN;
    }
    (void) pthread_mutex_unlock(&context->lock);
    return status;
}

/* Afterwards the operation is the core's again. The functions of the host never call back, so they
 * may be called with the lock held. */
static void complete(struct na_plugin_context *context, struct operation *op, int32_t status)
{
    TAILQ_REMOVE(&context->operations, op, entry);
    context->completed++;
    host->op_complete(op, status);
}

/* False while the send has to wait: for those before it to the same context, or for room there. */
static bool send_try(struct na_plugin_context *context, struct operation *op)
{
    struct iovec parts[2] = {{&op->header, sizeof(op->header)}, {op->buf, (size_t) op->size}};
    struct sockaddr_un name;
    struct msghdr datagram = {.msg_name = &name, .msg_iov = parts, .msg_iovlen = 2};
    const struct operation *other = TAILQ_FIRST(&context->operations);

    while (other->type != SEND || !is_same(other->peer, op->peer))
        other = TAILQ_NEXT(other, entry);
    if (other != op)
        return false;
    datagram.msg_namelen = socket_name(&name, op->peer);
    if (sendmsg(context->socket, &datagram, MSG_NOSIGNAL) >= 0) {
        complete(context, op, NA_PLUGIN_SUCCESS);
        return true;
    }
    if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == EINTR)
        return false;
    LOG(NA_PLUGIN_LOG_DEBUG, "%s: %s", name.sun_path + 1, strerror(errno));
    complete(context, op, NA_PLUGIN_HOSTUNREACH);
    return true;
}

static int32_t progress(struct na_plugin_context *context, uint32_t *count)
{
    struct operation *op, *next;

    (void) pthread_mutex_lock(&context->lock);
    receive(context);
    for (op = TAILQ_FIRST(&context->operations); op != NULL; op = next) {
        next = TAILQ_NEXT(op, entry);
        if (op->type == SEND)
            (void) send_try(context, op);
    }
    *count += context->completed;
    context->completed = 0;
    (void) pthread_mutex_unlock(&context->lock);
    return NA_PLUGIN_SUCCESS;
}

/* Deferred messages come first. While all of their places are taken the socket is not read:
 * messages stay there, and when it is full, with their senders. */
static void receive(struct na_plugin_context *context)
{
    while (context->first != context->end &&
           message_deliver(context, &context->messages[context->first % DEFERRED_MAX]))
        context->first++;
    for (int i = 0; i < READS_MAX && context->end - context->first < DEFERRED_MAX; i++) {
        struct message *message = &context->messages[context->end % DEFERRED_MAX];

        if (!message_read(context, message))
            break;
        /* Behind one that waits for memory, an unexpected message waits as well. */
        if ((message->header.kind == UNEXPECTED && context->first != context->end) ||
            !message_deliver(context, message))
            context->end++;
    }
}

/* False when there is none. A datagram may come from anybody and contain anything. */
static bool message_read(struct na_plugin_context *context, struct message *message)
{
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct sockaddr_un name = {0};
    struct iovec parts[2] = {{&message->header, sizeof(message->header)},
                             {message->content, sizeof(message->content)}};
    struct msghdr datagram = {.msg_name = &name,
                              .msg_namelen = sizeof(name),
                              .msg_iov = parts,
                              .msg_iovlen = 2,
                              .msg_control = control,
                              .msg_controllen = sizeof(control)};
    const ssize_t size = recvmsg(context->socket, &datagram, MSG_DONTWAIT);

    if (size < 0)
        return false;
    message->size = (uint64_t) size - sizeof(message->header);
    if ((size_t) size < sizeof(message->header) || (datagram.msg_flags & MSG_TRUNC) != 0 ||
        message->header.magic != MAGIC || message->header.kind >= FOREIGN ||
        !sender_read(&datagram, &message->source)) {
        LOG(NA_PLUGIN_LOG_DEBUG, "a datagram of %zd bytes is of no peer: dropped", size);
        message->header.kind = FOREIGN;
    }
    return true;
}

/* The kernel says the user. The name, which anybody may have chosen, has to be one of ours to the
 * last byte. */
static bool sender_read(struct msghdr *datagram, struct place *source)
{
    const struct cmsghdr *control = CMSG_FIRSTHDR(datagram);
    const struct sockaddr_un *name = datagram->msg_name;
    struct sockaddr_un ours;
    struct ucred user;

    if (control == NULL || control->cmsg_level != SOL_SOCKET ||
        control->cmsg_type != SCM_CREDENTIALS || datagram->msg_namelen >= sizeof(*name) ||
        sscanf(name->sun_path + 1, "amalgam/" NAME "/%16" SCNx64 "/%9" SCNu32, &source->endpoint,
               &source->context) != 2)
        return false;
    memcpy(&user, CMSG_DATA(control), sizeof(user));
    return user.uid == geteuid() && socket_name(&ours, *source) == datagram->msg_namelen &&
           memcmp(&ours, name, datagram->msg_namelen) == 0;
}

/* False when an unexpected message has to wait, for a receive or for memory; others are dropped. */
static bool message_deliver(struct na_plugin_context *context, const struct message *message)
{
    const uint32_t kind = message->header.kind;
    struct na_plugin_addr *source = NULL;
    struct operation *op = TAILQ_FIRST(&context->operations);

    while (op != NULL && !is_match(op, message))
        op = TAILQ_NEXT(op, entry);
    if (op == NULL)
        return kind != UNEXPECTED;
    if (message->size > op->size) {
        complete(context, op, NA_PLUGIN_MSGSIZE);
        return true;
    }
    if (kind == UNEXPECTED &&
        addr_new(context->na_class, message->source.endpoint, &source) != NA_PLUGIN_SUCCESS)
        return false;
    if (message->size > 0)
        memcpy(op->buf, message->content, message->size);
    TAILQ_REMOVE(&context->operations, op, entry);
    context->completed++;
    host->op_complete_recv(op, NA_PLUGIN_SUCCESS, message->size, source, message->header.tag);
    return true;
}

static bool is_match(const struct operation *op, const struct message *message)
{
    return op->type == RECEIVE && op->header.kind == message->header.kind &&
           (op->header.kind == UNEXPECTED ||
            (op->header.tag == message->header.tag && is_same(op->peer, message->source)));
}

static bool is_same(struct place place1, struct place place2)
{
    return place1.endpoint == place2.endpoint && place1.context == place2.context;
}

/* The operation may have been completed a moment ago: what it points to is compared, not read. */
static int32_t cancel(struct na_plugin_context *context, void *op_p)
{
    struct operation *op;

    (void) pthread_mutex_lock(&context->lock);
    op = TAILQ_FIRST(&context->operations);
    while (op != NULL && op != op_p)
        op = TAILQ_NEXT(op, entry);
    if (op != NULL)
        complete(context, op, NA_PLUGIN_CANCELED);
    (void) pthread_mutex_unlock(&context->lock);
    return NA_PLUGIN_SUCCESS;
}

static const struct na_plugin plugin = {
    .abi_version = NA_PLUGIN_ABI_VERSION,
    .size = sizeof(struct na_plugin),
    .name = NAME,
    .version = "0.1.0",
    .description = "Messages over Unix datagrams between processes of one machine",
    .op_size = sizeof(struct operation),
    .op_align = _Alignof(struct operation),
    .capabilities = CAPABILITIES,
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
    .msg_send_expected = msg_send_expected,
    .msg_recv_unexpected = msg_recv_unexpected,
    .msg_recv_expected = msg_recv_expected,
    .poll = progress,
    .cancel = cancel,
};

int32_t na_plugin_entry_v1(const struct na_host *given, const struct na_plugin **plugin_p,
                           const char **reason_p)
{
    if (given->abi_version >> 16 != NA_PLUGIN_ABI_MAJOR) {
        *reason_p = "the core's host table is not of ABI 1";
        return NA_PLUGIN_OPNOTSUPPORTED;
    }
    host = given;
    *plugin_p = &plugin;
    return NA_PLUGIN_SUCCESS;
}
