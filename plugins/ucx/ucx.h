/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The private objects of the plugin and what its modules offer each other. Everything that is
 * reached through an endpoint is guarded by the lock of its message layer.
 */

#ifndef UCX_H
#define UCX_H

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "kit_remote.h"
#include "na_plugin_offer_details.h"

#include <pthread.h>
#include <stdatomic.h>
#include <ucp/api/ucp.h>

#define UCX_PLUGIN_NAME   "ucx"
#define UCX_ORIGIN_PREFIX "origin-" /* of the names of those who do not listen */

#define UCX_MAX_FRAME     UINT64_C(65536)
#define UCX_MAX_SENDS     1u /* UCX may let a frame overtake one that it has in its queue */
#define UCX_PIECE         UINT32_C(245760)      /* of a transfer; over sockets it fits */
#define UCX_STREAM_SEG    "256K"                /* into what UCX hands to the socket in one go */
#define UCX_PIECES        16u                   /* of a transfer in progress */
#define UCX_TAGS          4096u                 /* of pieces that we receive */
#define UCX_EAGER_MAX     UINT64_C(16384)       /* larger pieces go by rendezvous */
#define UCX_LOOKS         8u                    /* at shared memory in one poll */
#define UCX_LINK_POLLS    64u                   /* polls between two looks at the clock, which */
#define UCX_LINK_NS       UINT64_C(50000)       /* says whether to look at the sockets */
#define UCX_GRACE_NS      UINT64_C(20000000)    /* for frames behind a closed socket */
#define UCX_HELLO_NS      UINT64_C(60000000000) /* a target may be slow to read it */
#define UCX_BUCKETS       1024u
#define UCX_SPARES        4u   /* descriptors that UCX finds free when it makes an endpoint */
#define UCX_OFFERED_MAX   512u /* text that names what UCX offers */
#define UCX_DEVICES_MAX   256u /* a list of interfaces */

/* Active messages */
#define UCX_AM_FRAME         1u
#define UCX_AM_PIECE         2u
#define UCX_AM_PUT           3u /* a small put, all of it */
#define UCX_AM_PROBE         4u /* from ourselves */
#define UCX_AM_COUNT         5u

#define UCX_LOG(level, ...)  KIT_LOG(level, UCX_PLUGIN_NAME, __VA_ARGS__)
#define UCX_LOG_ERROR(...)   UCX_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define UCX_LOG_WARNING(...) UCX_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define UCX_LOG_INFO(...)    UCX_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define UCX_LOG_DEBUG(...)   UCX_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* A transport in a worker's address: a sum over its name, and lengths of addresses. */
#define UCX_TRANSPORTS_MAX 64u
struct ucx_transport {
    uint16_t sum;
    uint32_t device_size, place_size;
};

/*
 * One of UCX's workers. There is one until a process that dies leaves the shared memory through
 * which others write to it in disorder; then a new one takes its place for whoever comes.
 */
struct ucx_worker {
    struct kit_link node;
    struct na_plugin_class *na_class;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_size;
    uint64_t uuid; /* in it */
    struct ucx_transport transports[UCX_TRANSPORTS_MAX];
    uint32_t transport_count;
    uint32_t tcp_count;  /* of them */
    bool is_readable;    /* addresses like it can be checked */
    ucp_worker_h prober; /* by which we write to ourselves, made when it is needed */
    ucp_ep_h probe_ep;
    uint64_t probe_sent; /* number of the last probe, random */
    uint64_t probe_seen;
    uint64_t probe_end;
    uint32_t probe_polls;
    bool is_suspect; /* it is to be probed */
    bool is_probing;
    bool is_broken; /* it receives nothing any more */
    bool is_retired;
};

#define UCX_CHALLENGE       72u
#define UCX_CHALLENGE_SHARE 8u /* where the shares lie in it */

/* Of auth.c; without a key only the challenge. */
struct ucx_auth {
    struct kit_auth_exchange exchange[KIT_SECRETS]; /* of a caller: the first */
    struct kit_auth_keys keys[KIT_SECRETS];         /* for each share of the called one */
    uint32_t proven;                                /* of them, by the caller's code: bits */
    uint8_t challenge[UCX_CHALLENGE];
};

/* One socket on which two endpoints introduce themselves and see each other die. */
struct ucx_channel {
    struct kit_link node; /* of the link, or of the class while it is not known whose it is */
    struct na_plugin_class *na_class;
    struct ucx_link *link; /* NULL until a caller said who it is */
    int fd;
    bool is_of_process; /* of process.c, within this node */
    bool is_dialed;
    bool is_connecting;
    bool is_met;            /* its hello was read */
    bool is_challenged;     /* by the one that we called */
    int32_t failure;        /* to be told as it fails; 0: it cannot be reached */
    bool is_sent;           /* our hello, to who called */
    struct ucx_hello *held; /* a caller's, while we dial the name that it says; it refers to `in` */
    uint8_t *out;
    uint32_t out_size, out_done;
    uint8_t *in;
    uint32_t in_size, in_done; /* in_size: of the whole hello once its head is there */
    uint64_t deadline;
    struct ucx_auth auth;
};

enum ucx_link_phase {
    UCX_LINK_DIALING,
    UCX_LINK_READY,
    UCX_LINK_DYING,  /* the other side hung up: what it sent before is still read */
    UCX_LINK_FAILED, /* closed, or closing */
};

/* An endpoint of UCX. */
struct ucx_end {
    ucp_ep_h ep;         /* NULL: there is none, or not any more */
    void *close_request; /* until it is closed */
};

/* What one that we dial says of its own call to us, while it holds ours for the same reason. */
struct ucx_claim {
    uint64_t incarnation;
    uint64_t link_id;
    struct kit_key proof; /* made of its secret */
};

/* What joins us with one process. It outlives its peer object until UCX lets go of it. */
struct ucx_link {
    struct kit_link node;    /* of the class: all */
    struct kit_link trouble; /* of the class: those that are dying, failing or closing */
    struct ucx_link *hash_next;
    struct na_plugin_class *na_class;
    struct kit_peer *peer; /* NULL when the message layer has not opened it */
    char *name;
    uint32_t hash;
    char their_name[KIT_NAME_MAX]; /* as the peer says; another one where an alias was dialed */
    enum ucx_link_phase phase;
    uint64_t id;                 /* ours, known to the other side */
    uint64_t their_id;           /* theirs, with every piece and HELLO */
    struct kit_key secret;       /* who names this link has to say it; only both sides know it */
    struct kit_key their_secret; /* what we have to say */
    uint64_t their_incarnation;
    uint64_t their_uuid; /* of their worker, when its address was checked */
    struct ucx_claim claim;
    bool has_claim;
    bool has_turned; /* it is dialed once more, under the second of our keys */
    bool is_met;
    bool is_failing; /* UCX said so: dealt with in the next poll */
    bool has_error_mode;
    bool is_shared; /* it writes to our shared memory */
    bool is_stream; /* all goes through sockets */
    bool is_native; /* a lane reads and writes the other side's memory, and both sides want that */
    bool is_eager;  /* pieces of any size are */
    bool has_goodbye; /* it said that it closes */
    char hung_up[64]; /* why it is dying */
    bool is_joined;   /* UCX has connected us to its worker */
    struct ucx_worker *worker;
    ucs_status_t failure;
    struct ucx_end end;      /* for messages */
    struct ucx_end data;     /* for ucp_get and ucp_put: what a device refuses breaks no other */
    bool is_data_broken;     /* UCX said so: transfers of this link are the engine's from now on */
    uint32_t pid;            /* of a process of this node whose memory we may touch; else 0 */
    uint64_t registry;       /* address of its registry there; 0: we may not read by ourselves */
    uint64_t their_registry; /* the same as its process says, whether we may or not */
    bool is_warned;          /* of messages that are not its own */
    bool is_attach_refused;  /* it may not touch ours */
    uint32_t busy;           /* sends and receives that UCX has not let go of */
    uint64_t deadline;
    uint64_t made_at; /* that is: dialed, then met */
    struct kit_link channels;
    struct kit_link requests; /* of UCX that know memory */
};

/* AMALGAM_UCX_RMA: how puts and gets are carried out; for tests and for comparing. */
enum ucx_rma_choice {
    UCX_RMA_AUTO,
    UCX_RMA_COPY,
    UCX_RMA_UCP,
    UCX_RMA_MESSAGES,
};

/* Begins with the message layer's endpoint. */
struct na_plugin_class {
    struct kit_endpoint fabric;
    char *protocol;
    ucp_context_h context;
    struct ucx_worker *worker; /* for new links */
    char loopback
        [UCX_DEVICES_MAX]; /* interfaces that `context` has not: of a context of their own */
    ucp_context_h loopback_context; /* NULL until a peer is reached through them */
    struct ucx_worker *loopback_worker;
    struct kit_link workers; /* all */
    ucs_thread_mode_t thread_mode;
    uint32_t probing;      /* workers that are, or are to be */
    uint32_t shared_links; /* that have an endpoint */
    uint32_t other_links;
    bool may_attach;                        /* memory of processes of this node may be touched */
    struct kit_rma_piece *posted[UCX_TAGS]; /* by tag: what waits for its message */
    struct kit_link reads;                  /* gets of ours that go on in the next poll */
    struct ucx_entry *registry;             /* NULL: there is none */
    uint64_t incarnation;
    struct kit_auth_secret *secret;      /* made of auth_key; NULL: there is none */
    struct kit_auth_secret *secret_also; /* of auth_key_also, likewise */
    char name[KIT_NAME_MAX];
    int listen_fd;
    int epoll_fd;
    int process_fd;  /* where processes of this node ask who we are; -1: nowhere */
    int unclosed_fd; /* of process.c, which another user keeps from closing; -1: none */
    bool is_busy;
    bool is_attentive; /* the sockets are to be looked at in the next poll */
    bool has_hardware; /* a lane of RDMA is possible */
    bool is_native;    /* and nothing else: targets have no part in memory to read and write */
    bool wants_keys;   /* handles carry UCP's remote keys */
    bool has_segments; /* those of sockets are large enough for an eager piece */
    ucp_datatype_t piece;
    enum ucx_rma_choice rma_choice;
    uint64_t quiet_until;    /* a complaint about descriptors was made */
    uint64_t descriptors;    /* in use, or set aside for UCX: at most so many */
    uint64_t descriptors_at; /* when they were counted; 0: never */
    uint64_t count_next;     /* not before that */
    int spares[UCX_SPARES];  /* -1: not open */
    uint32_t polls;
    uint32_t dialing;   /* links */
    uint64_t look_next; /* at the sockets */
    struct kit_link links;
    struct kit_link trouble;
    struct kit_link closing;      /* closed channels */
    struct kit_link unidentified; /* channels whose hello has not come, or is held */
    uint32_t held_calls;          /* of them */
    struct ucx_link *buckets[UCX_BUCKETS];
    struct kit_link free_blocks;
    struct kit_link held;       /* by the message layer, UCX's memory */
    struct kit_regions regions; /* of every struct na_plugin_mem */
    struct kit_table links_by_id;
};

struct ucx_peer {
    struct ucx_link *link;
};

/* A frame that names a link has to say this: it goes before a frame with a HELLO. */
struct ucx_link_name {
    uint64_t link;         /* the receiver's id of the link */
    struct kit_key secret; /* the receiver's, of that link */
};

struct ucx_frame {
    struct ucx_link_name name; /* UCX reads it until the frame is sent */
    struct kit_frame *frame;
    struct na_plugin_class *na_class;
    struct ucx_link *link;
};

/* A local region, or what is known of a remote one. */
struct na_plugin_mem {
    struct kit_region region;
    ucp_mem_h mem;
    void *packed; /* UCP's remote key as it travels; padded when it came from the wire */
    size_t packed_size;
    ucp_rkey_h rkey;
    uint64_t rkey_link; /* id of the link that it was unpacked for */
};

/* The plugin's part of a put or get at its origin. */
struct ucx_transfer {
    struct kit_link node; /* of the reads */
    struct na_plugin_class *na_class;
    struct kit_msg_rma *rma;
    struct ucx_link *link;
    int32_t status;
    bool is_native;
    bool is_read;
    bool is_over;         /* it failed or was abandoned: ends when nothing touches the memory */
    bool is_unreadable;   /* the system does not let us, after all */
    uint64_t remote_base; /* what is read by ourselves: where it lies in the target, */
    uint64_t head, tail;  /* and the range of it that nobody has begun */
};

/* Before a piece. */
struct ucx_piece_header {
    struct ucx_link_name name;
    uint32_t tag;
    uint32_t is_taken_back; /* what is behind stands for a piece that does not come */
};

/* Before the bytes of a small put. */
struct ucx_put_header {
    struct ucx_link_name name;
    uint8_t record[KIT_RMA_RECORD_SIZE];
};

/* The plugin's part of a piece. */
struct ucx_piece {
    struct ucx_link *link;
    struct ucx_request *request; /* what UCX has of it */
    bool is_canceled;
    bool is_lost; /* its sender has taken it back */
};

/*
 * What UCX has in hand that knows memory. It outlives the piece or the transfer when its link is
 * closed. UCX asks for the bytes of an eager piece when it can copy them; until then the piece can
 * be taken back.
 */
struct ucx_request {
    struct kit_link node; /* of the link */
    struct ucx_link *link;
    struct kit_rma_piece *piece;   /* this, */
    struct ucx_transfer *transfer; /* or one of UCP's own */
    const uint8_t *data;           /* eager; NULL: UCX knows the memory, or nobody does */
    uint64_t size;
    uint64_t packed; /* bytes of it that UCX has copied */
    struct ucx_piece_header header;
};

static inline struct na_plugin_class *ucx_class(struct kit_endpoint *endpoint)
{
    return (struct na_plugin_class *) (void *) endpoint;
}

static inline struct ucx_peer *ucx_peer(struct kit_peer *peer)
{
    return peer->priv;
}

/* plugin.c */
extern const struct kit_msg_ops ucx_ops;

/* status.c: what UCX says, and what it would print */
int32_t ucx_status(ucs_status_t status);
int32_t ucx_failed(const char *what, ucs_status_t status);
void ucx_log_capture(void);
void ucx_log_reset(void);
const char *ucx_log_last(void);
extern _Thread_local uint32_t ucx_log_depth __attribute__((tls_model("initial-exec")));

/* Between these two of one thread, what UCX has to say goes to our log. */
static inline void ucx_enter(void)
{
    ucx_log_depth++;
}

static inline void ucx_leave(void)
{
    ucx_log_depth--;
}

/* protocol.c */
#define UCX_TLS_MAX 128u
bool ucx_protocol_to_tls(const char *protocol, char tls[UCX_TLS_MAX]);
bool ucx_protocol_missing(const char *tls, char *missing, size_t size);
bool ucx_protocol_has(const char *tls, const char *transport);

/* resources.c */
struct ucx_resource {
    char transport[16];
    char device[32];
};
uint32_t ucx_resources(const struct ucx_resource **list_p);
void ucx_resources_text(char text[UCX_OFFERED_MAX]);
void ucx_resources_find(const char *tls, bool *has_hardware, bool *has_others);
void ucx_resources_cleanup(void);

/* enumerate.c */
int32_t ucx_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);
int32_t ucx_offer_describe(const char *protocol, const char *device, char *text, uint64_t size);

/* fork.c */
extern pthread_mutex_t ucx_resources_lock; /* locks that another thread may hold meanwhile */
extern pthread_mutex_t ucx_log_lock;
void ucx_fork_watch(void);
int32_t ucx_fork_enter(void);
void ucx_fork_leave(void);

/* endpoint.c */
int32_t ucx_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t ucx_class_finalize(struct na_plugin_class *na_class);

/* context.c */
void ucx_devices_choose(char devices[UCX_DEVICES_MAX], char loopback[UCX_DEVICES_MAX]);
int32_t ucx_context_create(struct na_plugin_class *na_class, const char *tls, const char *devices,
                           ucp_context_h *context_p);

/* worker.c */
int32_t ucx_worker_open(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                        const char *tls, const char *devices);
struct ucx_worker *ucx_worker_for(struct na_plugin_class *na_class, const char *name);
void ucx_worker_close(struct na_plugin_class *na_class);
int32_t ucx_poll(struct kit_endpoint *endpoint);
int ucx_get_fd(struct kit_endpoint *endpoint);
bool ucx_try_wait(struct kit_endpoint *endpoint);

/* address.c */
int32_t ucx_addr_lookup(struct na_plugin_class *na_class, const char *name,
                        struct na_plugin_addr **addr_p);
int32_t ucx_name_listen(struct na_plugin_class *na_class, const struct na_plugin_init *init,
                        char *device, size_t device_size);

/* peer.c */
int32_t ucx_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
void ucx_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);
const void *ucx_peer_path(struct kit_endpoint *endpoint, const struct kit_peer *peer);
bool ucx_path_is_named(struct kit_endpoint *endpoint, const void *path, const char *name);

/* link.c */
struct ucx_link *ucx_link_find(struct na_plugin_class *na_class, const char *name);
struct ucx_link_name ucx_link_name(const struct ucx_link *link);
struct ucx_link *ucx_link_named(struct na_plugin_class *na_class, const struct ucx_link_name *name);
struct ucx_link *ucx_link_create(struct ucx_worker *worker, const char *name);
void ucx_link_fail(struct ucx_link *link, int32_t status, const char *reason);
void ucx_link_hung_up(struct ucx_link *link, const char *reason);
void ucx_link_trouble(struct ucx_link *link);
void ucx_link_end(struct ucx_link *link);
void ucx_link_data_broke(struct ucx_link *link, ucs_status_t status);
void ucx_end_close(struct ucx_end *end, const struct ucx_link *link, bool is_forced);
bool ucx_end_is_closed(struct ucx_end *end);
void ucx_links_leave(struct ucx_worker *worker);
void ucx_links_close(struct na_plugin_class *na_class);
void ucx_links_free(struct na_plugin_class *na_class);
struct ucx_hello;
void ucx_link_met(struct ucx_link *link, const struct ucx_hello *hello);

/* channel.c */
int32_t ucx_channel_dial(struct ucx_link *link);
void ucx_channels_progress(struct na_plugin_class *na_class);
void ucx_links_progress(struct na_plugin_class *na_class);

/* socket.c */
#define UCX_GOODBYE 0x42
struct ucx_channel *ucx_channel_create(struct na_plugin_class *na_class, int fd);
bool ucx_channel_watch(struct ucx_channel *channel, int how, uint32_t events);
void ucx_channel_close(struct ucx_channel *channel);
void ucx_channel_say_goodbye(struct ucx_channel *channel);
void ucx_channels_reclaim(struct na_plugin_class *na_class);

/* One end of a connection, for comparing. */
struct process_end {
    uint8_t address[16]; /* IPv4 as IPv6 writes it */
    uint32_t port;
};
struct ucx_channel *ucx_channel_of_process(struct na_plugin_class *na_class, int fd);
bool ucx_channel_end(const struct ucx_channel *channel, bool is_ours, struct process_end *end);

/* descriptors.c */
bool ucx_descriptors_take_peer(struct na_plugin_class *na_class);
bool ucx_descriptors_take(struct na_plugin_class *na_class, uint32_t wanted);
uint32_t ucx_descriptors_of_strangers(void);
bool ucx_spares_open(struct na_plugin_class *na_class);
void ucx_spares_close(struct na_plugin_class *na_class);

/* neighbour.c */
bool ucx_channel_is_of_user(const struct ucx_channel *channel);

/* process.c: which process of this node a peer is */
void ucx_process_listen(struct na_plugin_class *na_class);
void ucx_process_close(struct na_plugin_class *na_class);
void ucx_process_ask(struct ucx_channel *channel, uint64_t incarnation);
bool ucx_process_accept(struct na_plugin_class *na_class, int fd);
void ucx_process_event(struct ucx_channel *channel);

/* hello.c: the first and only message on a channel, each way */
struct ucx_hello {
    uint64_t incarnation;
    uint64_t link_id;
    struct kit_key secret;
    char name[KIT_NAME_MAX];
    const void *address;
    uint32_t address_size;
    bool is_attachable; /* it can be asked which process of this node it is */
    bool is_native;     /* it gives UCX's keys to memory, for devices */
    bool is_native_any; /* and where UCX moves the data by software, too */
    uint64_t uuid;      /* of its worker, when its address was checked */
    bool is_checked;
};
#define UCX_HELLO_VERSION 9u
#define UCX_HELLO_HEAD    136u
#define UCX_HELLO_CODES   24u /* where the codes of auth.c lie, */
#define UCX_HELLO_SHARE   56u /* the caller's share, */
#define UCX_HELLO_REST    88u /* and what the digest is of */
#define UCX_HELLO_MAX     65536u
uint8_t *ucx_hello_write(const struct ucx_link *link, uint32_t *size_p);
const char *ucx_hello_head(const uint8_t *data, uint32_t *size_p);
const char *ucx_hello_read(const uint8_t *data, uint32_t size, struct ucx_hello *hello);
void ucx_hello_refuse(uint8_t bytes[UCX_HELLO_HEAD]);
bool ucx_hello_is_refusal(const uint8_t *data);
void ucx_hello_claim(const struct ucx_link *link, uint8_t bytes[UCX_HELLO_HEAD]);
bool ucx_hello_is_claim(const uint8_t *data, struct ucx_claim *claim);
bool ucx_hello_is_claimed(const struct ucx_hello *hello, const struct ucx_claim *claim);

/* auth.c: whether the other side has our key */
int32_t ucx_auth_setup(struct na_plugin_class *na_class, const struct na_plugin_init *init);
void ucx_auth_challenge(struct ucx_channel *channel, uint8_t bytes[UCX_CHALLENGE]);
const char *ucx_auth_challenged(struct ucx_channel *channel, const uint8_t bytes[UCX_CHALLENGE]);
bool ucx_auth_sign(struct ucx_channel *channel, uint8_t *data, uint32_t size);
bool ucx_auth_turn(struct ucx_link *link);
const char *ucx_auth_check(struct ucx_channel *channel, uint8_t *data, uint32_t size);
void ucx_auth_wipe(struct ucx_channel *channel);

/* worker_address.c: what unidentified peers send, before UCX sees it */
bool ucx_address_learn(struct ucx_worker *worker);
const char *ucx_address_check(struct ucx_worker *ours, void *address, size_t size, bool is_near,
                              uint64_t *uuid_p);
void ucx_address_hide_shared(struct ucx_worker *ours, void *address, size_t size);

/* probe.c */
bool ucx_probe_progress(struct na_plugin_class *na_class);
void ucx_probe_end(struct ucx_worker *worker);

/* A process that wrote to its shared memory has died: the next poll finds out what that did. */
static inline void ucx_worker_suspect(struct ucx_worker *worker)
{
    if (!worker->is_suspect)
        worker->na_class->probing++;
    worker->is_suspect = true;
}

ucs_status_t ucx_probe_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param);

/* frame.c */
int32_t ucx_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
ucs_status_t ucx_frame_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param);
void ucx_frame_release(struct kit_endpoint *endpoint, void *cookie);

/* pool.c: small objects of messages, which are kept for the next one */
#define UCX_BLOCK_SIZE 128u
void *ucx_block_get(struct na_plugin_class *na_class);
void ucx_block_put(struct na_plugin_class *na_class, void *block);
void ucx_blocks_free(struct na_plugin_class *na_class);
struct ucx_request *ucx_request_get(struct ucx_link *link);
void ucx_request_put(struct ucx_request *request);
void ucx_requests_forget(struct ucx_link *link);
bool ucx_requests_touch(const struct ucx_link *link, const struct na_plugin_mem *mem);

/* memory.c */
int32_t ucx_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p);
void ucx_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t ucx_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device);
int32_t ucx_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t ucx_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t ucx_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size);
int32_t ucx_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p);
ucs_status_t ucx_mem_rkey(struct ucx_link *link, struct na_plugin_mem *mem, ucp_rkey_h *rkey_p);
void ucx_mem_forget_keys(struct na_plugin_class *na_class);
void ucx_mem_free_all(struct na_plugin_class *na_class);

/* rma.c */
int32_t ucx_rma_open(struct na_plugin_class *na_class);
int32_t ucx_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);
bool ucx_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);
bool ucx_transfer_abandon(struct ucx_transfer *transfer, int32_t status, bool is_peer_gone);

static inline bool ucx_regions_are_host(const struct kit_region *local,
                                        const struct kit_region *remote)
{
    return local->mem_type == NA_PLUGIN_MEM_TYPE_HOST &&
           remote->mem_type == NA_PLUGIN_MEM_TYPE_HOST;
}

/* rma_native.c: lanes that need no help of the target */
int32_t ucx_native_start(struct ucx_transfer *transfer);

/* piece.c: by active messages */
int32_t ucx_piece_send(void *owner, struct kit_rma_piece *piece);
int32_t ucx_piece_recv(void *owner, struct kit_rma_piece *piece);
bool ucx_piece_cancel(void *owner, struct kit_rma_piece *piece);
void ucx_piece_withdraw(void *owner, struct kit_rma_piece *piece);
ucs_status_t ucx_piece_received(void *arg, const void *header, size_t header_size, void *data,
                                size_t size, const ucp_am_recv_param_t *param);
int32_t ucx_put_send(void *owner, void *peer, const void *record, uint32_t record_size,
                     const struct kit_region *region, uint64_t offset, uint32_t size);
ucs_status_t ucx_put_received(void *arg, const void *header, size_t header_size, void *data,
                              size_t size, const ucp_am_recv_param_t *param);
int32_t ucx_pieces_setup(struct na_plugin_class *na_class);
void ucx_pieces_cleanup(struct na_plugin_class *na_class);

/* registry.c: what is registered, for processes of this node that read it by themselves */
#define UCX_REGISTRY 65536u /* places; regions with a higher index are copied by their owner */
struct ucx_entry {
    _Atomic uint64_t key[2]; /* the first 0: nothing is registered here */
    uint64_t base;
    uint64_t length;
    uint32_t flags;
    uint32_t mem_type;
};
_Static_assert(sizeof(struct ucx_entry) == 40, "as other processes read it");
void ucx_registry_open(struct na_plugin_class *na_class);
void ucx_registry_close(struct na_plugin_class *na_class);
void ucx_registry_add(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);
void ucx_registry_remove(struct na_plugin_class *na_class, const struct na_plugin_mem *mem);

/* rma_read.c: gets that we carry out in the target's memory, with its help when they are large */
bool ucx_read_is_possible(const struct ucx_transfer *transfer);
int32_t ucx_read_start(struct ucx_transfer *transfer);
void ucx_read_helped(struct ucx_transfer *transfer, int32_t status);
void ucx_reads_progress(struct na_plugin_class *na_class);

#endif /* UCX_H */
