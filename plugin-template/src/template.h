/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the transport: its objects, and what its files share.
 *
 * Read the files in this order: plugin.c (what it says of itself), endpoint.c (opening, closing),
 * address.c (peers), message.c (sending), receive.c, poll.c (progress and sleep), memory.c and
 * transfer.c (remote memory access over messages).
 *
 * What goes over the wire: each message is one datagram between Unix sockets, one socket for each
 * context. Unix datagrams neither get lost nor overtake each other, and a full receiver is an
 * error at its sender (EAGAIN): order and back-pressure come with the fabric. Yours may need work
 * for them. The order is that of one context to one context, which is what na_plugin.h promises:
 * messages that wait here for room do so in their context, and those of another may pass them.
 */

#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <na_plugin.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TEMPLATE_NAME      "template" /* of the file na_template.so, of the class, of addresses */
#define TEMPLATE_PROTOCOL  "unix"
#define TEMPLATE_START     TEMPLATE_NAME "+" TEMPLATE_PROTOCOL "://"
#define TEMPLATE_NAME_MAX  64u    /* of an endpoint */
#define TEMPLATE_MESSAGE   16384u /* largest message */
#define TEMPLATE_PIECE     32768u /* of a transfer, in one datagram */
#define TEMPLATE_HELD_MAX  1024u  /* messages that wait for a receive, in each context */
#define TEMPLATE_SERVE_MAX 1024u  /* transfers of others that we work on, in each context */
#define TEMPLATE_CONTEXTS  64u
#define TEMPLATE_BUCKETS   64u

/* ------------------------------------------------------------------------------------------------
 * The wire
 */

enum template_frame_kind {
    TEMPLATE_UNEXPECTED,
    TEMPLATE_EXPECTED,
    TEMPLATE_PUT,      /* a piece to be written at `offset` */
    TEMPLATE_PUT_DONE, /* its last piece is there, or one was refused */
    TEMPLATE_GET,      /* `length` bytes at `offset` are wanted */
    TEMPLATE_GET_DATA  /* a piece that belongs at `offset` of what was wanted */
};

/* In front of every datagram. Both ends are on one machine: no byte order. */
struct template_frame {
    uint32_t magic;
    uint32_t kind;
    uint32_t tag;
    int32_t status; /* of PUT_DONE and GET_DATA */
    uint64_t id;    /* of a transfer, given by who started it */
    uint64_t key;   /* of the memory */
    uint64_t offset;
    uint64_t length;
    uint32_t last; /* nothing follows */
    uint32_t reserved;
};

#define TEMPLATE_MAGIC 0x31706d74u

/* ------------------------------------------------------------------------------------------------
 * Objects. The structs that na_plugin.h only names are ours to define.
 */

/* A list whose members hold the links: nothing is allocated to be in it. */
struct template_link {
    struct template_link *next, *prev;
};

/*
 * The private part of an operation. The core makes room for it beside its own part
 * (na_plugin.op_size); it is ours as long as the operation lives, and zero at the beginning.
 */
struct template_op {
    struct template_link link; /* in one list of its context; NULL when it is in none */
    struct na_plugin_context *context;
    struct na_plugin_addr *peer;
    uint32_t peer_id; /* the peer's context */
    uint32_t kind;    /* enum template_frame_kind */
    uint32_t tag;
    void *buf; /* of a message */
    uint64_t size;
    /* A transfer */
    uint64_t id, key, offset, sent, done;
    uint8_t *memory; /* here */
};

/* A message that came before its receive. */
struct template_held {
    struct template_link link;
    struct na_plugin_addr *source;
    uint32_t tag;
    uint64_t size;
    uint8_t content[];
};

/* What we owe to a peer that puts to us or gets from us. */
struct template_serve {
    struct template_link link;
    struct na_plugin_addr *peer;
    uint32_t peer_id;
    struct template_frame frame; /* the next one to be sent */
    uint64_t start, length;      /* of a get */
};

/* A peer. There is one object for each name, so that comparing is comparing pointers. */
struct na_plugin_addr {
    struct na_plugin_addr *next;
    uint32_t references;
    uint32_t blocked; /* round of sending in which its queue was full */
    char name[TEMPLATE_NAME_MAX + 1];
};

struct na_plugin_mem {
    struct template_link link; /* in the class's list: what a caller forgets is found there */
    uint8_t *base;             /* NULL when it is remote */
    uint64_t length;
    uint64_t key;
    uint32_t flags;
    bool registered;
};

struct na_plugin_context {
    struct na_plugin_class *na_class;
    uint32_t id;
    bool stopped;
    bool deaf;       /* the socket is out of the epoll set, until there is room again */
    bool notified;   /* the event is readable */
    int socket;      /* bound to the endpoint's name and the id */
    int timer;       /* wakes us to try again, and to look after peers */
    int event;       /* woken by other threads */
    int epoll;       /* the three of them: what the core sleeps on */
    uint32_t round;  /* of sending */
    uint32_t armed;  /* what the timer is set to, in ms */
    uint64_t looked; /* when peers were looked after, in ns */
    uint32_t completed;
    struct template_link sends;      /* messages that wait for room at their receiver */
    struct template_link transfers;  /* ours that are not done */
    struct template_link serves;     /* those of others */
    struct template_link expected;   /* posted receives */
    struct template_link unexpected; /* posted receives */
    struct template_link held;       /* messages without a receive */
    uint32_t held_count, serve_count;
    uint8_t *frame; /* a datagram that is being read */
};

/* One lock for all of an endpoint. It is held for short; more of them is an optimization. */
struct na_plugin_class {
    pthread_mutex_t lock;
    char name[TEMPLATE_NAME_MAX + 1];
    uint32_t max_contexts;
    bool busy, no_retry;
    int probe; /* a socket that only asks whether others are there */
    uint64_t next_id;
    struct na_plugin_addr *self;
    struct na_plugin_addr *peers[TEMPLATE_BUCKETS];
    struct template_link memory; /* all handles */
    struct na_plugin_context *contexts[TEMPLATE_CONTEXTS];
};

/* ------------------------------------------------------------------------------------------------
 * What the files share
 */

extern const struct na_host *template_host; /* all that we get from the core */

#define TEMPLATE_LOG(level, ...) \
    na_plugin_log(template_host, level, TEMPLATE_NAME, __func__, __LINE__, __VA_ARGS__)
#define TEMPLATE_ERROR(...) TEMPLATE_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define TEMPLATE_DEBUG(...) TEMPLATE_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

static inline void template_list_init(struct template_link *list)
{
    list->next = list->prev = list;
}

static inline bool template_list_is_empty(const struct template_link *list)
{
    return list->next == list;
}

static inline void template_list_append(struct template_link *list, struct template_link *link)
{
    link->next = list;
    link->prev = list->prev;
    list->prev->next = link;
    list->prev = link;
}

static inline void template_list_remove(struct template_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = NULL;
}

/* endpoint.c */
int32_t template_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                            struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t template_finalize(struct na_plugin_class *na_class);
int32_t template_context_create(struct na_plugin_class *na_class,
                                struct na_host_context *host_context, uint32_t id,
                                struct na_plugin_context **context_p);
int32_t template_context_stop(struct na_plugin_context *context);
int32_t template_context_destroy(struct na_plugin_context *context);

/* address.c. Those that end in _locked are for callers with the lock of the class. */
int32_t template_addr_lookup(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **addr_p);
void template_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
int32_t template_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                          struct na_plugin_addr **addr_p);
int32_t template_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p);
uint32_t template_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
uint32_t template_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                               struct na_plugin_addr *addr2);
int32_t template_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                char *buf, uint64_t *size);
bool template_name_is_valid(const char *name);
struct na_plugin_addr *template_peer_get_locked(struct na_plugin_class *na_class, const char *name);
void template_peer_put_locked(struct na_plugin_class *na_class, struct na_plugin_addr *peer);
socklen_t template_sockaddr(struct sockaddr_un *where, const char *name, uint32_t id);
bool template_sockaddr_parse(const struct sockaddr_un *where, socklen_t length, char *name,
                             uint32_t *id);
bool template_peer_lives(struct na_plugin_class *na_class, const struct na_plugin_addr *peer,
                         uint32_t id);

/* message.c */
int32_t template_send_unexpected(struct na_plugin_context *context, void *op, const void *buf,
                                 uint64_t size, void *data, struct na_plugin_addr *dest,
                                 uint32_t dest_id, uint32_t tag);
int32_t template_send_expected(struct na_plugin_context *context, void *op, const void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *dest,
                               uint32_t dest_id, uint32_t tag);
int32_t template_cancel(struct na_plugin_context *context, void *op);
int32_t template_write(struct na_plugin_context *context, struct na_plugin_addr *peer,
                       uint32_t peer_id, struct template_frame *frame, const void *content,
                       uint64_t size);
void template_complete(struct template_op *op, int32_t status);
void template_complete_all(struct na_plugin_context *context, int32_t status,
                           const struct na_plugin_addr *peer, uint32_t peer_id);
void template_progress_sends(struct na_plugin_context *context);

/* receive.c */
int32_t template_recv_unexpected(struct na_plugin_context *context, void *op, void *buf,
                                 uint64_t size, void *data);
int32_t template_recv_expected(struct na_plugin_context *context, void *op, void *buf,
                               uint64_t size, void *data, struct na_plugin_addr *source,
                               uint32_t source_id, uint32_t tag);
bool template_progress_receives(struct na_plugin_context *context); /* true: none is left */
void template_held_free(struct na_plugin_context *context, struct template_held *held);

/* poll.c */
int32_t template_poll(struct na_plugin_context *context, uint32_t *count);
int32_t template_poll_get_fd(struct na_plugin_context *context);
uint32_t template_poll_try_wait(struct na_plugin_context *context);
int32_t template_sleep_open(struct na_plugin_context *context);
void template_sleep_close(struct na_plugin_context *context);
void template_notify(struct na_plugin_context *context);
void template_hear(struct na_plugin_context *context, bool hear);

/* memory.c */
int32_t template_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                            uint32_t flags, struct na_plugin_mem **mem_p);
void template_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t template_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                              uint32_t mem_type, uint64_t device);
int32_t template_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t template_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t template_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                               void *buf, uint64_t size);
int32_t template_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                 struct na_plugin_mem **mem_p);
int32_t template_mem_find_locked(struct na_plugin_class *na_class, uint64_t key, uint64_t offset,
                                 uint64_t length, uint32_t access, uint8_t **where_p);

/* transfer.c */
int32_t template_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                     uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                     uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t template_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                     uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                     uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
void template_transfer_frame(struct na_plugin_context *context, const struct template_frame *frame,
                             const uint8_t *content, uint64_t size, struct na_plugin_addr *peer,
                             uint32_t peer_id);
void template_progress_transfers(struct na_plugin_context *context);
void template_serves_free(struct na_plugin_context *context);

#endif /* TEMPLATE_H */
