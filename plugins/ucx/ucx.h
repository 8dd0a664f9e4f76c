/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the modules of this plugin share. The lock of a class's message layer guards everything that
 * belongs to the class.
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
#define UCX_ORIGIN_PREFIX "origin-" /* names of endpoints that do not listen begin with it */

#define UCX_MAX_FRAME     UINT64_C(65536)
#define UCX_MAX_SENDS     1u /* UCX may deliver a frame before an earlier one that it queued */
#define UCX_PIECE         UINT32_C(245760) /* bytes of a piece, which fits UCX_STREAM_SEG */
#define UCX_STREAM_SEG    "256K"           /* segment size of UCX's tcp, sent by one system call */
#define UCX_PIECES        16u              /* pieces of a transfer in progress */
#define UCX_TAGS          4096u            /* tags of pieces to receive */
#define UCX_EAGER_MAX     UINT64_C(16384)  /* larger pieces are sent by rendezvous */
#define UCX_SHARED_POLLS  8u               /* polls of a worker with shared memory alone */
#define UCX_LINK_POLLS    64u              /* polls between two readings of the clock */
#define UCX_LINK_NS       UINT64_C(50000)  /* between two polls of the sockets */
#define UCX_GRACE_NS      UINT64_C(20000000)    /* for frames sent before a socket was closed */
#define UCX_HELLO_NS      UINT64_C(60000000000) /* for a caller's HELLO */
#define UCX_BUCKETS       1024u
#define UCX_SPARES        4u   /* descriptors kept free for ucp_ep_create() */
#define UCX_OFFERED_MAX   512u /* bytes of a list of UCX's transports */
#define UCX_DEVICES_MAX   256u /* bytes of a list of interfaces */

/* Active messages */
#define UCX_AM_FRAME         1u
#define UCX_AM_PIECE         2u
#define UCX_AM_PUT           3u /* the REQUEST of a small put with all of its data */
#define UCX_AM_PROBE         4u /* from this process (probe.c) */
#define UCX_AM_COUNT         5u

#define UCX_LOG(level, ...)  KIT_LOG(level, UCX_PLUGIN_NAME, __VA_ARGS__)
#define UCX_LOG_ERROR(...)   UCX_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define UCX_LOG_WARNING(...) UCX_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define UCX_LOG_INFO(...)    UCX_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define UCX_LOG_DEBUG(...)   UCX_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)

/* A transport in a worker's address: UCX's checksum of its name, and the sizes of its addresses. */
#define UCX_TRANSPORTS_MAX 64u
struct ucx_transport {
    uint16_t sum;
    uint32_t device_size, iface_size;
};

/*
 * A class has one worker, and another one for the loopback interface (context.c). If a process dies
 * while it writes to a worker's shared memory, the worker may receive nothing any more; then a new
 * one replaces it for new links (probe.c).
 */
struct ucx_worker {
    struct kit_link node;
    struct na_plugin_class *na_class;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_size;
    uint64_t uuid; /* UCX's identifier of the worker, part of `address` */
    struct ucx_transport transports[UCX_TRANSPORTS_MAX];
    uint32_t transport_count;
    uint32_t tcp_count;  /* transports that are tcp */
    bool is_readable;    /* worker_address.c understands this UCX's addresses */
    ucp_worker_h prober; /* sends probes to `worker`; NULL until the first one */
    ucp_ep_h probe_ep;
    uint64_t probe_sent; /* the random number in the last probe */
    uint64_t probe_seen; /* the number of the last probe that arrived */
    uint64_t probe_end;  /* ns */
    uint32_t probe_polls;
    bool is_suspect; /* the next poll sends a probe */
    bool is_probing;
    bool is_broken; /* the probe did not arrive */
    bool is_retired;
};

#define UCX_CHALLENGE       72u
#define UCX_CHALLENGE_SHARE 8u /* offset of the shares in the challenge */

/* State of auth.c; without a key only the challenge is used. */
struct ucx_auth {
    struct kit_auth_exchange exchange[KIT_SECRETS]; /* a caller uses the first one */
    struct kit_auth_keys keys[KIT_SECRETS];         /* for each share in the challenge */
    uint32_t proven;                                /* bits: `keys` whose code was right */
    uint8_t challenge[UCX_CHALLENGE];
};

/* A socket between two endpoints, for their HELLOs and to notice the peer's death. */
struct ucx_channel {
    struct kit_link node; /* in link.channels, or in na_plugin_class.unidentified or .closing */
    struct na_plugin_class *na_class;
    struct ucx_link *link; /* NULL until the caller is identified */
    int fd;
    bool is_of_process; /* a local socket of process.c */
    bool is_dialed;     /* this side connected */
    bool is_connecting;
    bool is_met;                /* the peer's HELLO was read */
    bool is_challenged;         /* the challenge was read */
    int32_t failure;            /* status if the channel fails; 0: NA_PLUGIN_HOSTUNREACH */
    bool is_hello_sent;         /* accepted: this side's HELLO was sent */
    struct ucx_hello *deferred; /* a caller's HELLO while its name is dialed; refers to `in` */
    uint8_t *out;
    uint32_t out_size, out_done;
    uint8_t *in;
    uint32_t in_size, in_done; /* in_size: of the part that is being read */
    uint64_t deadline;         /* ns: for the HELLO of an unidentified channel */
    struct ucx_auth auth;
};

enum ucx_link_phase {
    UCX_LINK_DIALING,
    UCX_LINK_READY,
    UCX_LINK_DYING,  /* the peer closed the channel; frames that it sent before are received */
    UCX_LINK_FAILED, /* closed, or closing */
};

/* A UCP endpoint. */
struct ucx_endpoint {
    ucp_ep_h ep;         /* NULL: not created, or closed */
    void *close_request; /* of ucp_ep_close_nbx() in progress, or NULL */
};

/*
 * Two processes that dial each other each defer the caller's HELLO. The claim tells the dialed
 * process which of its callers this process is, so it can accept that HELLO.
 */
struct ucx_claim {
    uint64_t incarnation;
    uint64_t link_id;
    struct kit_key proof; /* of knowing the secret in that HELLO */
};

/* The connection to one process. It outlives its peer until UCX has completed all requests. */
struct ucx_link {
    struct kit_link node;      /* in na_plugin_class.links */
    struct kit_link scheduled; /* in na_plugin_class.scheduled, or empty */
    struct ucx_link *hash_next;
    struct na_plugin_class *na_class;
    struct kit_peer *peer; /* NULL: not opened by the message layer */
    char *name;
    uint32_t hash;
    char their_name[KIT_NAME_MAX]; /* as in the peer's HELLO; differs if an alias was dialed */
    enum ucx_link_phase phase;
    uint64_t id;                 /* this side's id of the link */
    uint64_t their_id;           /* the peer's id, sent with every piece and HELLO */
    struct kit_key secret;       /* has to come with `id`; known to both sides alone */
    struct kit_key their_secret; /* has to be sent with `their_id` */
    uint64_t their_incarnation;
    uint64_t their_uuid; /* of the peer's worker, if its address was checked */
    struct ucx_claim claim;
    bool has_claim;
    bool has_second_key; /* is dialed under auth_key_also */
    bool is_met;
    bool is_failing; /* UCX reported an error; the next poll fails the link */
    bool has_error_mode;
    bool is_shared;             /* the peer writes to the worker's shared memory */
    bool is_stream;             /* all data are sent over sockets */
    bool is_native;             /* a lane does RMA, and both sides give out remote keys */
    bool is_eager;              /* pieces of any size are sent eagerly */
    bool has_bye;               /* a BYE was received */
    char disconnect_reason[64]; /* in UCX_LINK_DYING */
    bool is_wired_up;           /* UCX has connected `end` to the peer's worker */
    struct ucx_worker *worker;
    ucs_status_t failure;
    struct ucx_endpoint end;  /* for active messages */
    struct ucx_endpoint data; /* for ucp_get and ucp_put: a refused access breaks only this one */
    bool is_data_broken;      /* the engine moves the data of this link */
    uint32_t pid;             /* of a process of this node whose memory may be accessed; or 0 */
    uint64_t registry;        /* address of the peer's registry, if it may be read; or 0 */
    uint64_t their_registry;  /* the same, as the peer said, whether it may be read or not */
    bool is_warned;           /* messages with a wrong secret were logged */
    bool is_attach_refused;   /* the peer may not access this process's memory */
    uint32_t outstanding;     /* sends and receives that UCX has not completed */
    uint64_t deadline;        /* ns: end of UCX_LINK_DYING */
    uint64_t made_at;         /* ns: dialed, later met */
    struct kit_link channels;
    struct kit_link requests; /* struct ucx_request */
};

/* The values of AMALGAM_UCX_RMA. */
enum ucx_rma_choice {
    UCX_RMA_AUTO,
    UCX_RMA_COPY,
    UCX_RMA_UCP,
    UCX_RMA_MESSAGES,
};

struct na_plugin_class {
    struct kit_endpoint fabric; /* the first member, as the message layer demands */
    char *protocol;
    ucp_context_h context;
    struct ucx_worker *worker;      /* for new links */
    char loopback[UCX_DEVICES_MAX]; /* interfaces of loopback_context */
    ucp_context_h loopback_context; /* NULL until a peer is reached by the loopback interface */
    struct ucx_worker *loopback_worker;
    struct kit_link workers; /* all */
    ucs_thread_mode_t thread_mode;
    uint32_t probing;      /* workers that are suspect, and that are being probed */
    uint32_t shared_links; /* links with an endpoint over shared memory */
    uint32_t other_links;  /* links with an endpoint over other transports alone */
    bool may_attach;       /* memory of processes of this node may be accessed */
    struct kit_rma_piece *posted[UCX_TAGS]; /* by tag: receives of pieces */
    struct kit_link reads;                  /* struct ucx_transfer of rma_read.c in progress */
    struct ucx_entry *registry;             /* or NULL */
    uint64_t incarnation;
    struct kit_auth_secret *secret;      /* of auth_key, or NULL */
    struct kit_auth_secret *secret_also; /* of auth_key_also, or NULL */
    char name[KIT_NAME_MAX];
    int listen_fd;
    int epoll_fd;
    int process_fd;  /* local socket of process.c, or -1 */
    int unclosed_fd; /* socket of process.c whose close() another user would block, or -1 */
    bool is_busy;
    bool poll_sockets; /* the next poll polls the sockets */
    bool has_hardware; /* an RDMA transport can be used */
    bool is_native;    /* only RDMA transports can be used, and remote keys are given out */
    bool wants_keys;   /* serialized handles have UCP's remote keys */
    bool has_segments; /* segments of tcp have room for an eager piece */
    ucp_datatype_t piece;
    enum ucx_rma_choice rma_choice;
    uint64_t descriptors_logged_until; /* ns: missing descriptors are not logged again before */
    uint64_t descriptors;              /* upper bound of those in use and reserved for UCX */
    uint64_t descriptors_at;           /* ns: when they were counted; 0: never */
    uint64_t count_not_before;         /* ns: no count before */
    int spares[UCX_SPARES];            /* -1: not open */
    uint32_t polls;
    uint32_t dialing;         /* links in UCX_LINK_DIALING */
    uint64_t sockets_poll_at; /* ns */
    struct kit_link links;
    struct kit_link scheduled;    /* links that the next poll acts on */
    struct kit_link closing;      /* closed channels, to be freed */
    struct kit_link unidentified; /* accepted channels without a HELLO, or with a deferred one */
    uint32_t held_calls;          /* channels with a deferred HELLO */
    struct ucx_link *buckets[UCX_BUCKETS];
    struct kit_link free_blocks;
    struct kit_regions regions; /* of every struct na_plugin_mem */
    struct kit_table links_by_id;
};

struct ucx_peer {
    struct ucx_link *link;
};

/* Names a link to the receiver: in the header of a frame with a HELLO, a piece and a put. */
struct ucx_link_name {
    uint64_t link;         /* the receiver's id of the link */
    struct kit_key secret; /* the receiver's secret of the link */
};

struct ucx_frame {
    struct ucx_link_name name; /* header of the active message until it is sent */
    struct kit_frame *frame;
    struct ucx_link *link;
};

/* A memory handle, local or remote. */
struct na_plugin_mem {
    struct kit_region region;
    ucp_mem_h mem;
    void *packed; /* UCP's packed remote key; padded if it was deserialized (memory.c) */
    size_t packed_size;
    ucp_rkey_h rkey;
    uint64_t rkey_link; /* id of the link that rkey was unpacked for */
};

/* Private part of a put or get at its origin. */
struct ucx_transfer {
    struct kit_link node; /* in na_plugin_class.reads, or empty */
    struct na_plugin_class *na_class;
    struct kit_msg_rma *rma;
    struct ucx_link *link;
    int32_t status;       /* if is_abandoned */
    bool is_native;       /* by UCP (rma_native.c) */
    bool is_read;         /* by this process (rma_read.c) */
    bool is_abandoned;    /* completes when nothing accesses the local memory */
    bool is_unreadable;   /* is_read: the system refused to read the rest */
    uint64_t remote_base; /* is_read: address in the target */
    uint64_t head, tail;  /* is_read: the range that neither side has begun to copy */
};

/* Header of a piece. */
struct ucx_piece_header {
    struct ucx_link_name name;
    uint32_t tag;
    uint32_t is_taken_back; /* the piece was cancelled, and zeroes are sent in its place */
};

/* Header of a small put. */
struct ucx_put_header {
    struct ucx_link_name name;
    uint8_t record[KIT_RMA_RECORD_SIZE];
};

/* Private part of a piece. */
struct ucx_piece {
    struct ucx_link *link;
    struct ucx_request *request; /* NULL: not given to UCX */
    bool is_canceled;
    bool is_lost; /* cancelled by its sender */
};

/*
 * A request of UCX that accesses memory of a region. It outlives its piece or transfer if the link
 * is closed. UCX asks for the bytes of an eager piece when it can copy them; until then the piece
 * can be cancelled.
 */
struct ucx_request {
    struct kit_link node; /* in link.requests */
    struct ucx_link *link;
    struct kit_rma_piece *piece;   /* either a piece */
    struct ucx_transfer *transfer; /* or a put or get by UCP; both NULL: the link was closed */
    const uint8_t *data;           /* of an eager piece; NULL: not eager, or cancelled */
    uint64_t size;
    uint64_t packed; /* bytes of `data` that UCX has copied */
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

/* status.c */
int32_t ucx_status(ucs_status_t status);
int32_t ucx_failed(const char *action, ucs_status_t status);
void ucx_log_capture(void);
void ucx_log_reset(void);
const char *ucx_log_last(void);
extern _Thread_local uint32_t ucx_log_depth __attribute__((tls_model("initial-exec")));

/* Between these two calls, what UCX logs in this thread goes to the plugin's log. */
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
extern pthread_mutex_t ucx_resources_lock; /* both are taken around a fork() */
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
void ucx_link_disconnected(struct ucx_link *link, const char *reason);
void ucx_link_schedule(struct ucx_link *link);
void ucx_link_end(struct ucx_link *link);
void ucx_link_data_broke(struct ucx_link *link, ucs_status_t status);
void ucx_endpoint_close(struct ucx_endpoint *end, const struct ucx_link *link, bool is_forced);
bool ucx_endpoint_is_closed(struct ucx_endpoint *end);
void ucx_links_fail_shared(struct ucx_worker *worker);
void ucx_links_close(struct na_plugin_class *na_class);
void ucx_links_free(struct na_plugin_class *na_class);
struct ucx_hello;
void ucx_link_met(struct ucx_link *link, const struct ucx_hello *hello);

/* channel.c */
int32_t ucx_channel_dial(struct ucx_link *link);
void ucx_channels_progress(struct na_plugin_class *na_class);
void ucx_links_progress(struct na_plugin_class *na_class);

/* socket.c */
#define UCX_BYE 0x42
struct ucx_channel *ucx_channel_create(struct na_plugin_class *na_class, int fd);
bool ucx_channel_watch(struct ucx_channel *channel, int how, uint32_t events);
void ucx_channel_close(struct ucx_channel *channel);
void ucx_channel_send_bye(struct ucx_channel *channel);
void ucx_channels_reclaim(struct na_plugin_class *na_class);

/* The address of one end of a TCP connection. */
struct process_end {
    uint8_t address[16]; /* IPv4 as an IPv4-mapped IPv6 address */
    uint32_t port;       /* network byte order */
};
struct ucx_channel *ucx_channel_of_process(struct na_plugin_class *na_class, int fd);
bool ucx_channel_end(const struct ucx_channel *channel, bool is_ours, struct process_end *end);

/* descriptors.c */
bool ucx_descriptors_take_peer(struct na_plugin_class *na_class);
bool ucx_descriptors_take(struct na_plugin_class *na_class, uint32_t wanted);
uint32_t ucx_descriptors_for_unidentified(void);
bool ucx_spares_open(struct na_plugin_class *na_class);
void ucx_spares_close(struct na_plugin_class *na_class);

/* neighbour.c */
bool ucx_channel_is_of_user(const struct ucx_channel *channel);

/* process.c: which process of this node a peer is */
void ucx_process_listen(struct na_plugin_class *na_class);
bool ucx_process_close_again(struct na_plugin_class *na_class);
void ucx_process_ask(struct ucx_channel *channel, uint64_t incarnation);
bool ucx_process_accept(struct na_plugin_class *na_class, int fd);
void ucx_process_event(struct ucx_channel *channel);

/* hello.c: the message that each side sends on a channel */
struct ucx_hello {
    uint64_t incarnation;
    uint64_t link_id;
    struct kit_key secret;
    char name[KIT_NAME_MAX];
    const void *address;
    uint32_t address_size;
    bool is_attachable; /* the sender has a socket of process.c */
    bool is_native;     /* the sender gives out UCP's remote keys, for RDMA transports */
    bool is_native_any; /* for other transports as well */
    uint64_t uuid;      /* of the sender's worker, if is_checked */
    bool is_checked;    /* worker_address.c has checked the address */
};
#define UCX_HELLO_VERSION 9u
#define UCX_HELLO_HEAD    136u
#define UCX_HELLO_CODES   24u /* offset of the codes of auth.c */
#define UCX_HELLO_SHARE   56u /* offset of the caller's share */
#define UCX_HELLO_REST    88u /* offset of the bytes that the digest covers */
#define UCX_HELLO_MAX     65536u
uint8_t *ucx_hello_write(const struct ucx_link *link, uint32_t *size_p);
const char *ucx_hello_head(const uint8_t *data, uint32_t *size_p);
const char *ucx_hello_read(const uint8_t *data, uint32_t size, struct ucx_hello *hello);
void ucx_hello_refuse(uint8_t bytes[UCX_HELLO_HEAD]);
bool ucx_hello_is_refusal(const uint8_t *data);
void ucx_hello_claim(const struct ucx_link *link, uint8_t bytes[UCX_HELLO_HEAD]);
bool ucx_hello_is_claim(const uint8_t *data, struct ucx_claim *claim);
bool ucx_hello_is_claimed(const struct ucx_hello *hello, const struct ucx_claim *claim);

/* auth.c */
int32_t ucx_auth_setup(struct na_plugin_class *na_class, const struct na_plugin_init *init);
void ucx_auth_challenge(struct ucx_channel *channel, uint8_t bytes[UCX_CHALLENGE]);
const char *ucx_auth_challenged(struct ucx_channel *channel, const uint8_t bytes[UCX_CHALLENGE]);
bool ucx_auth_sign(struct ucx_channel *channel, uint8_t *data, uint32_t size);
bool ucx_auth_use_second_key(struct ucx_link *link);
const char *ucx_auth_check(struct ucx_channel *channel, uint8_t *data, uint32_t size);
void ucx_auth_wipe(struct ucx_channel *channel);

/* worker_address.c */
bool ucx_address_learn(struct ucx_worker *worker);
const char *ucx_address_check(struct ucx_worker *ours, void *address, size_t size,
                              bool is_same_user, uint64_t *uuid_p);
void ucx_address_hide_shared(struct ucx_worker *ours, void *address, size_t size);

/* probe.c */
bool ucx_probe_progress(struct na_plugin_class *na_class);
void ucx_probe_end(struct ucx_worker *worker);

/* A process that wrote to the worker's shared memory died: the next poll probes the worker. */
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

/* pool.c */
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

/* rma_native.c */
int32_t ucx_native_start(struct ucx_transfer *transfer);

/* piece.c */
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

/* registry.c */
#define UCX_REGISTRY 65536u /* entries; the owner copies regions with a higher index itself */
struct ucx_entry {
    _Atomic uint64_t key[2]; /* key[0] is 0: the entry is empty */
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

/* rma_read.c */
bool ucx_read_is_possible(const struct ucx_transfer *transfer);
int32_t ucx_read_start(struct ucx_transfer *transfer);
void ucx_read_part_done(struct ucx_transfer *transfer, int32_t status);
void ucx_reads_progress(struct na_plugin_class *na_class);

#endif /* UCX_H */
