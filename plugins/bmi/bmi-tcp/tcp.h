/* SPDX-License-Identifier: BSD-3-Clause */
/* The declarations that the modules of this implementation share. */

#ifndef BMI_TCP_H
#define BMI_TCP_H

#include "bmi.h"
#include "tcp_wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define tcp_likely(condition)   __builtin_expect((condition), 1)
#define tcp_unlikely(condition) __builtin_expect((condition), 0)

/* Contexts of an instance. */
#define TCP_CONTEXTS 16

#define TCP_BUCKETS  256u

/* Bytes read from a connection at once, and bytes read ahead behind a large message. */
#define TCP_INPUT_SIZE  65536u
#define TCP_INPUT_AHEAD 4096u

/* Bytes of unexpected messages not taken yet. Above the first limit connections without a posted
 * receive are not read, above the second none. */
#define TCP_UNEXPECTED_SOFT (UINT64_C(8) << 20)
#define TCP_UNEXPECTED_HARD (UINT64_C(64) << 20)

/* Bytes of eager messages without a posted receive, of one address and of all. */
#define TCP_EARLY_MAX (UINT64_C(1) << 20)
#define TCP_EARLY_ALL (UINT64_C(64) << 20)

/* Silent connections, on which no message has begun: how long one may stay open, and the share of
 * the process's descriptors that they may have, but at least a few. */
#define TCP_SILENT_MS    60000
#define TCP_SILENT_SHARE 4u
#define TCP_SILENT_LEAST 8u

/* A silent connection is open for at least this time. */
#define TCP_SILENT_LEAST_MS 100

/* Objects by the numbers given to callers, which are an index and a generation. */
struct tcp_table {
    struct tcp_slot *slots;
    uint32_t count;
    uint32_t first_free; /* count: none */
};

enum tcp_operation_kind {
    TCP_SEND,
    TCP_RECEIVE,
};

/* The list or connection that an operation is in. */
enum tcp_operation_state {
    TCP_FREE,
    TCP_QUEUED,    /* in its address's list, no byte was moved */
    TCP_MOVING,    /* a send: first in the list; a receive: its connection's `receive` */
    TCP_COMPLETED, /* in its context's list */
};

struct tcp_operation {
    TAILQ_ENTRY(tcp_operation) link;
    int64_t id;
    struct tcp_address *address;
    struct tcp_connection *connection; /* of a receive in TCP_MOVING */
    enum tcp_operation_kind kind;
    enum tcp_operation_state state;
    int32_t tag;
    int32_t error;
    void *user_ptr;
    int64_t context;
    uint8_t *data;      /* NULL in a receive: the message is discarded */
    uint64_t size;      /* of a receive: of the buffer */
    uint64_t done;      /* a send: bytes written, header included; a receive: size of the message */
    void *copy;         /* a copy that `data` points to, after a detach */
    bool is_unreported; /* it has no completion */
    bool is_unexpected;
    uint8_t header[WIRE_HEADER_SIZE];
};
TAILQ_HEAD(tcp_operations, tcp_operation);

/* A message that was received into memory of ours. */
struct tcp_message {
    TAILQ_ENTRY(tcp_message) link;
    struct tcp_address *address;
    int32_t tag;
    uint32_t size;
    int32_t error; /* not 0: a notice of this error, without data */
    uint8_t class;
    uint8_t data[];
};
TAILQ_HEAD(tcp_messages, tcp_message);

/* All are allocated with the same size, so that each serves any eager message. */
#define TCP_MESSAGE_SIZE (sizeof(struct tcp_message) + WIRE_EAGER_MAX)

struct tcp_connection {
    TAILQ_ENTRY(tcp_connection) link; /* in the instance's `connections` or `closed` */
    TAILQ_ENTRY(tcp_connection) address_link;
    TAILQ_ENTRY(tcp_connection) resume_link;
    TAILQ_ENTRY(tcp_connection) silent_link;
    struct tcp_instance *instance;
    struct tcp_address *address; /* NULL until the first message */
    int fd;                      /* negative: closed */
    uint32_t events;             /* those that epoll waits for */
    bool is_connecting;
    bool is_dialed;    /* we connected it, to its address's `place` */
    bool is_silent;    /* accepted, and no message has begun */
    uint64_t since;    /* when it was accepted, in ms */
    bool is_heard;     /* a message has begun */
    bool is_stalled;   /* `in` waits for a receive or for room, so nothing is read */
    bool is_to_resume; /* in the instance's `resume`, for the next progress */
    bool is_behind;    /* older connections of the peer must be read first */
    bool has_header;   /* `in` is set and its payload is not complete */

    /* The message being received */
    uint32_t header_size; /* bytes of the header received */
    uint8_t header[WIRE_HEADER_SIZE];
    struct wire_header in;
    uint64_t received;             /* bytes of the payload */
    uint8_t *target;               /* memory for the payload; NULL: discarded */
    struct tcp_operation *receive; /* whose buffer is `target`, or NULL */
    struct tcp_message *message;   /* whose data is `target`, or NULL */

    uint8_t *kept; /* bytes read behind the message that stalls the connection */
    size_t kept_size;
};
TAILQ_HEAD(tcp_connections, tcp_connection);

struct tcp_address {
    TAILQ_ENTRY(tcp_address) link;
    TAILQ_ENTRY(tcp_address) dropped_link;
    struct tcp_instance *instance;
    int64_t id;
    uint32_t references;
    uint32_t hash;               /* as in the headers of messages; 0: none */
    bool is_looked_up;           /* it is kept without references */
    bool is_dropped;             /* the last reference was dropped: no notice */
    char name[BMI_MAX_ADDR_LEN]; /* as it was looked up, or empty */
    char peer[BMI_MAX_ADDR_LEN]; /* where it connected from, or empty */
    struct sockaddr_storage place;
    socklen_t place_size;          /* 0: unknown, we cannot connect */
    struct tcp_connection *sender; /* the connection used to send, or NULL */
    struct tcp_connections connections;
    struct tcp_operations sends;
    struct tcp_operations receives;
    struct tcp_messages early; /* complete eager messages without a receive */
    uint64_t early_size;
    uint32_t unexpected;        /* its messages in the instance's list */
    struct tcp_message *notice; /* of a broken connection, in that list, or NULL */
    uint32_t operations;        /* operations not freed */
    uint32_t unexpected_sends;  /* queued ones */
};
TAILQ_HEAD(tcp_addresses, tcp_address);

struct tcp_instance {
    BMI_log_fn log;
    bool is_open;
    bool is_full;     /* connections stall because of too many unexpected messages */
    bool is_refusing; /* there are no descriptors, which was logged */
    int flags;
    int epoll_fd;
    int listen_fd;
    int timer_fd; /* negative: never used */
    int spare_fd; /* closed to refuse a connection when there are no descriptors */
    int port;
    uint32_t hash; /* hash of the name at which we listen, or 0 */
    int classes;   /* classes of unexpected messages from this on are discarded */
    bool drops_unwanted;
    int send_buffer;
    int receive_buffer;
    bool contexts[TCP_CONTEXTS];
    struct tcp_table address_table;
    struct tcp_table operation_table;
    struct tcp_addresses addresses[TCP_BUCKETS]; /* by hash */
    struct tcp_addresses dropped;                /* the oldest first */
    uint32_t dropped_count;
    struct tcp_connections connections;
    struct tcp_connection *hot;    /* the last one that was readable, or NULL */
    uint32_t hot_streak;           /* how often in a row it was */
    uint32_t hot_polls;            /* polls in a row without epoll */
    struct tcp_connections closed; /* freed at the end of BMI_progress() */
    struct tcp_connections resume;
    struct tcp_connections silent; /* the oldest first */
    uint32_t silent_count;
    uint32_t silent_ms;
    bool is_silent_told;
    struct tcp_operations completed[TCP_CONTEXTS];
    struct tcp_operations free_operations;
    struct tcp_messages unexpected;
    struct tcp_messages taken; /* given to the caller, until it frees them */
    struct tcp_messages free_messages;
    uint64_t unexpected_size;
    uint64_t early_size;
    uint32_t free_message_count;
    uint8_t *input; /* TCP_INPUT_SIZE bytes */
};

/* current.c */
struct tcp_instance *tcp_current(void);
void tcp_log(const struct tcp_instance *instance, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int tcp_error(int error);

/* table.c */
int64_t tcp_table_add(struct tcp_table *table, void *object);
void *tcp_table_find(const struct tcp_table *table, int64_t id);
void tcp_table_remove(struct tcp_table *table, int64_t id);
void tcp_table_free(struct tcp_table *table);

/* name.c */
uint32_t tcp_hash(const char *name);
int tcp_place_parse(const char *name, struct sockaddr_storage *place, socklen_t *size);
void tcp_place_format(const struct sockaddr_storage *place, char *text, size_t size);

/* address.c */
struct tcp_address *tcp_address_find(const struct tcp_instance *instance, uint32_t hash);
struct tcp_address *tcp_address_create(struct tcp_instance *instance, uint32_t hash);
void tcp_address_fail(struct tcp_address *address, int error);
void tcp_address_keep(struct tcp_address *address);
void tcp_address_release(struct tcp_address *address);
void tcp_address_destroy(struct tcp_address *address);

/* connection.c */
int tcp_connect(struct tcp_address *address);
void tcp_address_dial(struct tcp_address *address);
void tcp_socket_prepare(const struct tcp_instance *instance, int fd);
struct tcp_connection *tcp_connection_create(struct tcp_instance *instance, int fd,
                                             uint32_t events);
bool tcp_connection_bind(struct tcp_connection *connection, uint32_t hash);
void tcp_connection_watch(struct tcp_connection *connection, uint32_t events);
void tcp_connection_abort(struct tcp_connection *connection, int error);
void tcp_connections_free(struct tcp_connections *list);
void tcp_address_drop(struct tcp_address *address);
void tcp_address_disconnect(struct tcp_address *address);

/* accept.c */
int tcp_listen(struct tcp_instance *instance, const char *name, char *own_name);
void tcp_accept(struct tcp_instance *instance);
void tcp_silent_expire(struct tcp_instance *instance);

/* operation.c */
struct tcp_operation *tcp_operation_get(struct tcp_address *address);
void tcp_operation_put(struct tcp_operation *operation);
void tcp_operation_complete(struct tcp_operation *operation, int error);
void tcp_operations_free(struct tcp_instance *instance);

/* send.c */
void tcp_connected(struct tcp_connection *connection);
void tcp_flush(struct tcp_address *address);

/* receive.c */
bool tcp_read(struct tcp_connection *connection);
void tcp_resume(struct tcp_connection *connection);
void tcp_resume_add(struct tcp_connection *connection);

/* message.c */
struct tcp_message *tcp_message_get(struct tcp_instance *instance, uint64_t size);
void tcp_message_put(struct tcp_instance *instance, struct tcp_message *message);
void tcp_messages_free(struct tcp_messages *list);
void tcp_early_count(struct tcp_address *address);
void tcp_early_uncount(struct tcp_address *address);
void tcp_early_free(struct tcp_address *address);
void tcp_unexpected_add(struct tcp_instance *instance, struct tcp_message *message);
void tcp_notice_add(struct tcp_address *address, int error);
void tcp_notice_drop(struct tcp_address *address);

#endif /* BMI_TCP_H */
