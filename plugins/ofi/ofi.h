/* SPDX-License-Identifier: BSD-3-Clause */
/* What the modules of this plugin share; the message layer is kit_msg.h. */

#ifndef OFI_H
#define OFI_H

#include "kit_remote.h"
#include "na_plugin_offer_details.h"

#include <netinet/in.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define OFI_PLUGIN_NAME "ofi"

/* The libfabric API that is asked for; older libraries refuse it, newer ones emulate it. */
#define OFI_API_VERSION      FI_VERSION(1, 17)

#define OFI_LOG_ERROR(...)   OFI_LOG(NA_PLUGIN_LOG_ERROR, __VA_ARGS__)
#define OFI_LOG_WARNING(...) OFI_LOG(NA_PLUGIN_LOG_WARNING, __VA_ARGS__)
#define OFI_LOG_INFO(...)    OFI_LOG(NA_PLUGIN_LOG_INFO, __VA_ARGS__)
#define OFI_LOG_DEBUG(...)   OFI_LOG(NA_PLUGIN_LOG_DEBUG, __VA_ARGS__)
#define OFI_LOG(level, ...)  KIT_LOG(level, OFI_PLUGIN_NAME, __VA_ARGS__)

#define OFI_CACHE_LINE       64

/* Prefix of an FI_ADDR_STR address; libfabric uses the rest of the string as the name. */
#define OFI_STRING_PREFIX "fi_ns://"

/* Bytes of the longest name of an endpoint with a string address. */
#define OFI_STRING_NAME_MAX 96

/* Bytes of the longest raw memory key that is accepted. */
#define OFI_RAW_KEY_MAX 256

/* How the endpoints of a provider are named. */
enum ofi_naming {
    OFI_NAMING_SOCKET, /* host:port, FI_SOCKADDR_IN and FI_SOCKADDR_IN6 */
    OFI_NAMING_STRING, /* a name, FI_ADDR_STR */
    OFI_NAMING_RAW,    /* the bytes of the provider's address in hexadecimal digits */
};

/* The form of a provider's authorization keys. */
enum ofi_auth {
    OFI_AUTH_NONE,
    OFI_AUTH_UUID,   /* psm2, psm3, opx: 32 hexadecimal digits, hyphens allowed */
    OFI_AUTH_CXI,    /* "service:vni", decimal */
    OFI_AUTH_COOKIE, /* gni: one number */
};

/* One protocol as init strings name it. */
struct ofi_protocol {
    const char *name;
    const char *provider;         /* libfabric's core provider, also below a utility provider */
    const char *provider_in_1_17; /* its name before libfabric 1.18, if that differs, or NULL */
    uint32_t format;              /* FI_ADDR_*, FI_FORMAT_UNSPEC for IPv4 or IPv6 */
    enum ofi_naming naming;
    enum ofi_auth auth;
    int32_t priority; /* for `auto` */
    uint32_t frame;   /* bytes the provider sends eagerly, which completes in order of sending */
    bool node_local;
    bool tcp_port;     /* an address has the TCP port that the endpoint listens at */
    bool cm_port;      /* an address has the RDMA CM port that the endpoint listens at */
    bool is_fenced;    /* few frames and transfers to a peer are unacknowledged (address.c) */
    bool auto_to_wait; /* gives a descriptor to wait on only with FI_PROGRESS_AUTO */
    bool keeps_tagged; /* keeps connections with tagged messages that nothing receives (frame.c) */
};

/* What a completion belongs to. */
enum ofi_request_kind {
    OFI_REQUEST_SEND,
    OFI_REQUEST_RECEIVE,
    OFI_REQUEST_RMA,
    OFI_REQUEST_MOVE,
    OFI_REQUEST_FENCE,
    OFI_REQUEST_TAGGED
};

/* The context of every libfabric operation; the first member of what it is part of. */
struct ofi_request {
    struct fi_context2 context; /* for the provider's use (FI_CONTEXT, FI_CONTEXT2) */
    enum ofi_request_kind kind;
};

/* The libfabric objects of a class, and the memory that libfabric receives into. */
struct ofi_resources {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *endpoint;
    struct fid_cq *cq;
    struct fid_cq *sleep_cq;
    struct fid_av *av;
    struct fid_mr *receive_mr;
    void *receive_memory;
    void *receives;
};

/* A node-local endpoint of this process, which its other endpoints may have as a peer (local.c). */
struct ofi_local {
    struct ofi_local *next;
    char name[KIT_NAME_MAX];
    uint32_t references; /* address vector entries of other endpoints for this one */
    bool is_kept;        /* the class is closed; `kept` is closed with the last reference */
    struct ofi_resources kept;
};

/* Domain for connection attempts by RDMA CM that probe whether a peer listens (probe_cm.c). */
struct ofi_cm {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
};

/* One such connection attempt. */
struct ofi_cm_probe {
    struct fid_eq *eq;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
};

/* The endpoint of a class that puts and gets alone use (data.c). */
struct ofi_data {
    struct fid_ep *endpoint; /* NULL: the message endpoint has the puts and gets, too */
    struct fid_av *av;
    uint16_t port; /* network byte order */
};

/* The address of a peer's endpoint for data. */
struct ofi_data_address {
    fi_addr_t fi_addr;
    uint64_t stalled_since; /* ns: the connection is missing since then; 0: it is not */
    uint32_t requests;      /* posted to libfabric and not completed */
    uint16_t port;          /* network byte order; 0: not in the address vector */
    bool is_broken;         /* is inserted anew when its requests have completed */
    bool is_proven;         /* a request has succeeded */
    bool is_refused;        /* as in struct ofi_address */
    struct ofi_cm_probe probe;
};

/* An entry of the address vector; removed when its peer is closed and it has no requests. */
struct ofi_address {
    fi_addr_t fi_addr;
    uint32_t requests; /* sends, puts and gets in progress */
    bool closing;
    bool is_refused;   /* the last post to it failed, so it may have no connection */
    uint32_t injected; /* frames since the last fence */
    bool is_fencing;   /* `fence` is posted and not completed */
    struct ofi_request fence;
    struct ofi_data_address data;
    struct ofi_local *local; /* referenced; NULL: not an endpoint of this process */
    struct kit_link node;    /* in na_plugin_class.addresses */
};

/* Private part of a peer. */
struct ofi_peer {
    struct ofi_address *address;  /* NULL: closed */
    uint64_t stalled_since;       /* ns: first -FI_EAGAIN since the last send or probe; 0: none */
    uint64_t connecting_since;    /* ns: the peer listens, but does not accept; 0: not so */
    uint64_t blocked_since;       /* ns: first -FI_EAGAIN since the last send; 0: none */
    uint64_t retry_at;            /* ns: no send is tried before */
    bool is_connected;            /* a frame was posted successfully */
    bool was_refused;             /* the last probe found no listener */
    int probe_fd;                 /* connection attempt over TCP, or -1 */
    struct ofi_cm_probe cm_probe; /* connection attempt by RDMA CM */
    bool probing;
    bool is_unattachable; /* cross-memory attach is not permitted; logged once */
};

/* Private part of a frame that is being sent. */
struct ofi_send {
    struct ofi_request request;
    struct kit_frame *frame;
    struct ofi_address *address;
};

/* Private part of a put or get. */
struct ofi_rma {
    struct ofi_request request;
    struct kit_msg_rma *rma;
    struct ofi_address *address;
    uint64_t done;         /* bytes that were transferred */
    uint64_t in_progress;  /* bytes of the piece that is posted */
    uint64_t broken_since; /* ns: first failure of this piece with its connection; 0: none */
    int32_t abandoned;     /* the status to end with; NA_PLUGIN_SUCCESS: not abandoned */
    struct ofi_rma *next;  /* in rmas_waiting */
};

/* Posted receive buffers; frames beyond them wait in the provider. */
#define OFI_RECEIVES 64u

/* A buffer that receives frames. */
struct ofi_receive {
    struct ofi_request request;
    void *data;
    bool is_posted;
    struct ofi_receive *next; /* in receives_waiting */
};

/* Further receive buffers. */
struct ofi_more_receives {
    struct ofi_more_receives *next;
    uint8_t *memory;
    struct ofi_receive receives[OFI_RECEIVES];
};

/* A memory handle: local, registered or not, or remote, which was deserialized. */
struct na_plugin_mem {
    struct kit_region region;
    struct fid_mr *mr;
    void *descriptor;
    uint64_t fabric_key;  /* remote: key for fi_rma_iov */
    uint64_t fabric_base; /* remote: address of offset 0 for fi_rma_iov */
    uint16_t data_port;   /* remote: of the owner's endpoint for data, network byte order */
    bool is_key_mapped;   /* remote: fabric_key comes from fi_mr_map_raw() */
};

/* Address of a local region. */
static inline uint8_t *ofi_mem_base(const struct na_plugin_mem *mem)
{
    return (uint8_t *) (uintptr_t) mem->region.base;
}

/* The port in network byte order, which lies at the same offset for IPv4 and IPv6. */
static inline uint16_t ofi_socket_port(const struct sockaddr_storage *address)
{
    return ((const struct sockaddr_in *) address)->sin_port;
}

static inline bool ofi_host_equal(const struct sockaddr_storage *a,
                                  const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return ((const struct sockaddr_in *) a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *) b)->sin_addr.s_addr;
    return a->ss_family == AF_INET6 &&
           memcmp(&((const struct sockaddr_in6 *) a)->sin6_addr,
                  &((const struct sockaddr_in6 *) b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static inline void ofi_socket_port_set(struct sockaddr_storage *address, uint16_t port)
{
    ((struct sockaddr_in *) address)->sin_port = port;
}

struct na_plugin_class {
    struct kit_endpoint base; /* the first member, as the message layer demands */
    struct kit_msg_ops ops;
    struct ofi_protocol protocol;
    char protocol_name[64];
    char name[KIT_NAME_MAX];
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *endpoint;
    struct fid_cq *cq;
    struct fid_cq *sleep_cq; /* bound to no endpoint, for its descriptor (fabric.c); or NULL */
    struct fid_av *av;
    struct kit_link addresses;
    struct ofi_local *local; /* NULL: not node-local */
    uint64_t max_rma;
    uint64_t connect_ns;  /* for a peer that listens to accept a connection */
    uint64_t inject_size; /* frames of up to this size are injected, without a completion */
    uint64_t mr_mode;
    uint64_t key_mask; /* of requested registration keys */
    uint64_t put_flags;
    int wait_fd; /* negative: busy mode, or the provider has none */
    bool busy;
    bool failed; /* the completion queue or the endpoint is broken; logged once */
    bool is_out_of_fds;
    bool is_out_of_fds_logged;
    bool is_listening;
    uint32_t idle_polls; /* polls since a frame was received */
    uint32_t polls;
    struct ofi_cm cm;
    struct ofi_data data;
    FILE *unidentified; /* fdinfo of the epoll set with accepted connections; or NULL */
    int listen_fd; /* the listening socket, shut down before the endpoint closes; or negative */
    uint64_t unidentified_check_at; /* ns, of the next check */
    uint32_t unidentified_ms;       /* an accepted connection may be silent for so long */
    bool is_unidentified_logged;
    uint16_t own_port;   /* network byte order */
    uint32_t waits;      /* calls of ofi_try_wait() */
    uint32_t idle_waits; /* calls of ofi_try_wait() since the last completion */

    struct ofi_receive *receives;
    uint32_t receive_count;
    struct ofi_receive *receives_waiting; /* to be posted */
    struct ofi_receive tagged;            /* takes what no process of ours sends */
    struct ofi_more_receives *more;       /* for many connections */
    uint32_t receive_total;
    void *receive_memory;
    struct fid_mr *receive_mr;

    struct ofi_rma *rmas_waiting; /* FIFO */
    struct ofi_rma **rmas_waiting_end;

    struct kit_link moves;      /* posted struct ofi_move (target.c) */
    bool is_target_driven;      /* the target of a put or get reads or writes over a connection */
    bool uses_attach;           /* the target copies by cross-memory attach */
    struct kit_regions regions; /* of every struct na_plugin_mem */
};

/* protocol.c */
/* libfabric's tcp for FI_EP_RDM before 1.18, where the provider named tcp has FI_EP_MSG alone. */
#define OFI_TCP_IN_1_17 "net"

extern const struct ofi_protocol ofi_protocols[];
extern const uint32_t ofi_protocol_count;
bool ofi_protocol_find(const char *name, struct ofi_protocol *protocol);
bool ofi_provider_is_listed(const char *provider);
bool ofi_provider_opens(const char *provider);
bool ofi_protocol_has_provider(const struct ofi_protocol *protocol, const char *provider);
bool ofi_is_target_driven(const struct ofi_protocol *protocol, const struct fi_info *info);
bool ofi_is_native(const struct ofi_protocol *protocol, const struct fi_info *info);
enum ofi_naming ofi_format_naming(uint32_t format);

/* hints.c */
struct fi_info *ofi_hints_create(const struct ofi_protocol *protocol,
                                 const struct na_plugin_init *init);
int32_t ofi_hints_set_source(struct fi_info *hints, const struct ofi_protocol *protocol,
                             const char *domain, const struct sockaddr_storage *address,
                             const char *name);
int ofi_info_set_source(struct fi_info *info, const void *address, size_t size);
int32_t ofi_hints_set_auth_key(struct fi_info *hints, const struct ofi_protocol *protocol,
                               const char *auth_key);

/* enumerate.c */
int32_t ofi_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg);
int32_t ofi_offer_describe(const char *protocol, const char *device, char *text, uint64_t size);
void ofi_enumerate_cleanup(void);
void ofi_missing_text(const struct ofi_protocol *protocol, char *text, size_t size);
void ofi_offered_domains(const struct ofi_protocol *protocol, char *text, size_t size);
uint32_t ofi_offered_format(const struct ofi_protocol *protocol);
bool ofi_offered_domain(const struct ofi_protocol *protocol, const char *domain);

/* device.c */
struct fi_info *ofi_device_choose(struct fi_info *list);

/* select.c */
int32_t ofi_select(struct na_plugin_class *na_class, const struct na_plugin_init *init);

/* endpoint.c */
int32_t ofi_class_initialize(const struct na_plugin_init *init, struct na_host_class *host_class,
                             struct na_plugin_class **class_p, struct na_plugin_class_info *info);
int32_t ofi_class_finalize(struct na_plugin_class *na_class);

/* fabric.c */
int32_t ofi_fabric_open(struct na_plugin_class *na_class);
bool ofi_reset(struct kit_endpoint *endpoint);
bool ofi_endpoint_reopen(struct na_plugin_class *na_class);

/* local.c */
extern pthread_mutex_t ofi_list_lock; /* of enumerate.c; taken around a fork() */
void ofi_fork_watch(void);
int32_t ofi_local_add(struct na_plugin_class *na_class);
struct ofi_local *ofi_local_get(const struct na_plugin_class *na_class, const char *name);
void ofi_local_put(struct ofi_local *local);
void ofi_local_close(struct ofi_local *local, struct ofi_resources *resources);

/* address.c */
bool ofi_string_name_check(const char *name);
int32_t ofi_addr_lookup(struct na_plugin_class *na_class, const char *name,
                        struct na_plugin_addr **addr_p);
int32_t ofi_address_name(const struct na_plugin_class *na_class, const void *raw, size_t size,
                         char *name);
int32_t ofi_peer_open(struct kit_endpoint *endpoint, struct kit_peer *peer);
void ofi_peer_close(struct kit_endpoint *endpoint, struct kit_peer *peer);
bool ofi_address_fence(struct na_plugin_class *na_class, struct ofi_address *address);
bool ofi_address_is_fencing(const struct na_plugin_class *na_class);
void ofi_address_fenced(struct na_plugin_class *na_class, struct ofi_request *request);
void ofi_address_drop_request(struct na_plugin_class *na_class, struct ofi_address *address);
void ofi_address_destroy_all(struct na_plugin_class *na_class);

/* probe.c */
bool ofi_probe_file(const char *name, unsigned int *user);
bool ofi_probe_is_paced(struct ofi_peer *peer);
int32_t ofi_probe_stalled(struct na_plugin_class *na_class, struct kit_peer *peer);
void ofi_probe_end(struct kit_peer *peer);

/* data.c */
int32_t ofi_data_open(struct na_plugin_class *na_class);
void ofi_data_stop(struct na_plugin_class *na_class);
void ofi_data_close(struct na_plugin_class *na_class);
ssize_t ofi_data_begin(struct na_plugin_class *na_class, struct ofi_address *address, uint16_t port,
                       fi_addr_t *fi_addr_p);
void ofi_data_issued(struct ofi_address *address);
int32_t ofi_data_stalled(struct na_plugin_class *na_class, struct ofi_address *address,
                         uint16_t port);
bool ofi_data_failed(struct ofi_rma *rma, const struct fi_cq_err_entry *entry, int32_t *status_p);
void ofi_data_forget(struct na_plugin_class *na_class, struct ofi_address *address);

/* probe_cm.c */
int ofi_cm_begin(struct na_plugin_class *na_class, struct ofi_cm_probe *probe,
                 const struct sockaddr_storage *address);
int ofi_cm_check(struct ofi_cm_probe *probe);
void ofi_cm_end(struct ofi_cm_probe *probe);
void ofi_cm_close(struct na_plugin_class *na_class);

/* frame.c */
int32_t ofi_frame_send(struct kit_endpoint *endpoint, struct kit_frame *frame);
void ofi_frame_release(struct kit_endpoint *endpoint, void *cookie);
void ofi_frame_sent(struct na_plugin_class *na_class, struct ofi_send *send, int32_t status);
void ofi_frame_received(struct na_plugin_class *na_class, struct ofi_receive *receive,
                        uint64_t size);
int32_t ofi_receives_create(struct na_plugin_class *na_class);
void ofi_receives_post(struct na_plugin_class *na_class);
void ofi_tagged_received(struct na_plugin_class *na_class, int error);
void ofi_receives_grow(struct na_plugin_class *na_class, uint32_t connections);
void ofi_receives_free(struct na_plugin_class *na_class);
void ofi_receives_reset(struct na_plugin_class *na_class);
void ofi_receives_add(struct na_plugin_class *na_class, struct ofi_receive *receive);
int32_t ofi_slab_register(struct kit_endpoint *endpoint, void *base, uint64_t size,
                          void **registration_p);
void ofi_slab_deregister(struct kit_endpoint *endpoint, void *registration);

/* registration.c */
int32_t ofi_memory_register(struct na_plugin_class *na_class, const void *base, uint64_t length,
                            uint64_t access, uint32_t mem_type, uint64_t device,
                            struct fid_mr **mr_p);
void ofi_memory_check_cache(struct na_plugin_class *na_class);
int32_t ofi_random_key(struct na_plugin_class *na_class, uint64_t *key_p);

/* memory.c */
int32_t ofi_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                       uint32_t flags, struct na_plugin_mem **mem_p);
void ofi_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t ofi_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                         uint32_t mem_type, uint64_t device);
int32_t ofi_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t ofi_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t ofi_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem, void *buf,
                          uint64_t size);
int32_t ofi_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                            struct na_plugin_mem **mem_p);
void ofi_mem_destroy_all(struct na_plugin_class *na_class);

/* rma.c */
int32_t ofi_put(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t ofi_get(struct na_plugin_context *context, void *op, struct na_plugin_mem *local,
                uint64_t local_offset, struct na_plugin_mem *remote, uint64_t remote_offset,
                uint64_t length, struct na_plugin_addr *addr, uint32_t remote_id);
int32_t ofi_rma_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);
bool ofi_rma_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);
void ofi_rma_piece_done(struct na_plugin_class *na_class, struct ofi_rma *rma, int32_t status);
void ofi_rma_piece_failed(struct na_plugin_class *na_class, struct ofi_rma *rma,
                          const struct fi_cq_err_entry *entry);
void ofi_rma_retry(struct na_plugin_class *na_class);

/* target.c */
int32_t ofi_target_open(struct na_plugin_class *na_class);
void ofi_move_done(struct na_plugin_class *na_class, struct ofi_request *request, int32_t status);
bool ofi_target_is_busy(const struct na_plugin_class *na_class, const struct ofi_address *address,
                        const struct kit_region *region);

/* abort.c */
void ofi_abort_moves(struct na_plugin_class *na_class, const struct kit_region *region);
void ofi_peer_abort(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t silent_ms);
void ofi_peer_abort_now(struct kit_endpoint *endpoint, struct kit_peer *peer);
FILE *ofi_epoll_set_open(int fd);
bool ofi_epoll_set_next(FILE *set, int *fd_p);

/* queue.c */
int32_t ofi_queue_read(struct na_plugin_class *na_class, bool *is_awaited_p);
void ofi_queue_drain(struct na_plugin_class *na_class);

/* poll.c */
int32_t ofi_poll(struct kit_endpoint *endpoint);
int ofi_get_fd(struct kit_endpoint *endpoint);
bool ofi_try_wait(struct kit_endpoint *endpoint);

/* unidentified.c */
void ofi_unidentified_open(struct na_plugin_class *na_class);
void ofi_unidentified_close(struct na_plugin_class *na_class);
void ofi_unidentified_check(struct na_plugin_class *na_class);
void ofi_unidentified_end(struct na_plugin_class *na_class);

/* status.c */
int32_t ofi_status(int error);
int32_t ofi_send_status(int error);
int32_t ofi_failed(const struct na_plugin_class *na_class, const char *object, int error);
int ofi_endpoint_create(struct na_plugin_class *na_class, struct fi_info *info, struct fid_av *av,
                        struct fid_ep **endpoint_p);
void ofi_close(struct fid *fid);

#endif /* OFI_H */
