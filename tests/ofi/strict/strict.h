/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libfabric provider for tests. It enforces what providers for hardware require, and ends the
 * process with a message where their behaviour would be undefined. Messages, and reads and writes
 * that the target's side executes, go over tcp;ofi_rxm.
 *
 * Functions that plugins/ofi does not call are NULL.
 */

#ifndef STRICT_H
#define STRICT_H

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An address: IPv4 address and port in network byte order, and a mark that distinguishes it from
 * other data. */
#define STRICT_NAME_SIZE 8

/* The bytes of a read or write in one message; the eager limit of the layer below. */
#define STRICT_CHUNK 12288u

struct strict_ep;

/* The requirements of a provider on its user. */
struct strict_profile {
    const char *name;     /* in AMALGAM_STRICT_PROFILE */
    const char *provider; /* name of libfabric's provider */
    const char *device;
    uint32_t format;       /* address format */
    uint64_t mode;         /* FI_CONTEXT2 */
    int mr_mode;           /* FI_MR_* */
    size_t inject;         /* the largest inject */
    size_t queue;          /* sends, reads and writes in progress, and as many receives */
    size_t message;        /* the largest message, read or write */
    size_t regions;        /* the most registrations at a time */
    int full;              /* the error when there are more registrations */
    int refused;           /* the error of a read or write that the target refuses */
    bool has_fd;           /* has a descriptor to wait on */
    bool is_deferred;      /* writes need FI_DELIVERY_COMPLETE */
    bool is_source_pinned; /* FI_WRITE pins for writing; any registration may be a source */
};

struct strict_fabric {
    struct fid_fabric fid;
    struct fid_fabric *below;
    uint32_t objects; /* open domains */
};

/* A registration, at its place in the domain's table. */
struct strict_mr {
    struct fid_mr fid;
    struct strict_domain *domain;
    struct strict_ep *ep; /* set with FI_MR_ENDPOINT */
    uint8_t *base;
    size_t size;
    uint64_t access;
    uint32_t generation; /* how often the place was used */
    bool is_open;
    bool is_enabled;
};

/* The user's context of an operation, which the provider owns until the completion is read. */
struct strict_claim {
    struct strict_claim *next;
    uint64_t *context;
};

struct strict_domain {
    struct fid_domain fid;
    struct strict_fabric *fabric;
    const struct strict_profile *profile;
    struct fid_domain *below;
    struct strict_mr *regions;
    struct strict_claim *claims;
    uint64_t random;
    atomic_bool is_used;    /* by a thread in a call (FI_THREAD_DOMAIN) */
    uint32_t objects;       /* open queues, address vectors and endpoints */
    struct strict_op *left; /* operations of closed endpoints, which the layer below may still
                             * use */
};

/* The queue of operations to one address. */
struct strict_peer {
    fi_addr_t below;
    uint8_t name[STRICT_NAME_SIZE];
    struct strict_op *first; /* not yet accepted by the layer below */
    struct strict_op **end;
    uint64_t heard; /* ns: when the peer was last known to exist */
    uint32_t uses;  /* operations in progress */
    bool is_user;   /* inserted with fi_av_insert(), not for an answer */
    bool is_removed;
};

struct strict_av {
    struct fid_av fid;
    struct strict_domain *domain;
    struct fid_av *below;
    struct strict_peer **peers;
    size_t count;
};

struct strict_event {
    struct strict_event *next;
    void *context;
    uint64_t flags;
    size_t size;
    int error;
};

struct strict_cq {
    struct fid_cq fid;
    struct strict_domain *domain;
    struct fid_cq *below;
    struct strict_event *held; /* events that cannot be read yet */
    struct strict_event *ready;
    uint32_t hold; /* reads that return nothing */
    struct strict_ep *eps;
};

enum strict_kind {
    STRICT_SEND,
    STRICT_INJECT,
    STRICT_RECEIVE,
    STRICT_CONTROL,
    STRICT_CONTROL_IN
};

/* An operation that the layer below has, or will get. */
struct strict_op {
    struct strict_op *next; /* in the queue of its peer */
    struct strict_op *next_of_ep;
    struct strict_op **link;
    struct strict_ep *ep; /* NULL: closed */
    struct strict_peer *peer;
    enum strict_kind kind;
    void *context;
    uint8_t *user;         /* of a receive: the user's buffer */
    const uint8_t *source; /* of a send: the user's buffer, which was copied */
    void *descriptor;
    size_t size;
    uint8_t data[];
};

/* A read or write. */
struct strict_rma {
    struct strict_rma *next;
    struct strict_peer *peer;
    uint64_t id;
    void *context;
    uint8_t *user;
    void *descriptor;
    size_t size;
    uint32_t chunks; /* chunks without an answer */
    int error;
    bool is_write;
};

struct strict_ep {
    struct fid_ep fid;
    struct strict_domain *domain;
    struct fid_ep *below;
    struct strict_av *av;
    struct strict_cq *cq;
    struct strict_ep *next; /* in the list of the queue */
    struct strict_op *ops;
    struct strict_rma *rmas;
    uint64_t rma_id;
    size_t sends;     /* in progress, including reads and writes */
    size_t receives;  /* in progress */
    uint32_t regions; /* bound to this endpoint */
    uint8_t name[STRICT_NAME_SIZE];
    bool is_enabled;
};

/* profile.c */
const struct strict_profile *strict_profile(void);
uint64_t strict_seed(void);
bool strict_chance(struct strict_domain *domain, uint32_t one_of);
uint64_t strict_now(void);
void strict_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void *strict_alloc(size_t size);

/* provider.c */
int strict_below_info(uint16_t port, struct fi_info **info_p);
uint16_t strict_port(const struct fi_info *info);

/* domain.c */
int strict_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                       void *context);
void strict_enter(struct strict_domain *domain, const char *function);
void strict_leave(struct strict_domain *domain);
void strict_claim(struct strict_domain *domain, void *context, const char *function);
void strict_release(struct strict_domain *domain, void *context, bool is_read);

/* address.c */
int strict_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av,
                   void *context);
void strict_name_fill(uint8_t *name, const void *socket);
struct strict_peer *strict_peer(struct strict_av *av, fi_addr_t address, const char *function);
struct strict_peer *strict_peer_named(struct strict_av *av, const uint8_t *name);
bool strict_peer_is_there(struct strict_peer *peer, uint64_t now);
void strict_peer_release(struct strict_av *av, struct strict_peer *peer);

/* memory.c */
extern struct fi_ops_mr strict_mr_ops;
void strict_local_check(struct strict_ep *ep, const void *buffer, size_t size, void *descriptor,
                        uint64_t access, const char *function);
bool strict_local_is_open(struct strict_ep *ep, void *descriptor);
int strict_remote_find(struct strict_ep *ep, uint64_t key, uint64_t address, size_t size,
                       uint64_t access, uint8_t **memory_p);

/* queue.c */
int strict_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
                   void *context);
void strict_cq_add(struct strict_cq *cq, const struct strict_event *event);
void strict_cq_progress(struct strict_cq *cq);
bool strict_cq_has_work(struct strict_cq *cq);

/* endpoint.c */
int strict_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
                   void *context);
ssize_t strict_ep_begin(struct strict_ep *ep, fi_addr_t address, struct strict_peer **peer_p,
                        const char *function);

/* message.c */
extern struct fi_ops_msg strict_msg_ops;
struct strict_op *strict_op_new(struct strict_ep *ep, enum strict_kind kind, size_t size);
void strict_op_free(struct strict_op *op);
void strict_op_leave(struct strict_op *op);
void strict_op_send(struct strict_op *op);
void strict_op_done(struct strict_op *op, size_t size, int error);
void strict_ep_flush(struct strict_ep *ep);

/* rma.c */
extern struct fi_ops_rma strict_rma_ops;
int strict_control_open(struct strict_ep *ep);
void strict_control_receive(struct strict_ep *ep, const uint8_t *data, size_t size);
int strict_control_post(struct strict_op *op);
void strict_rma_fail(struct strict_ep *ep, const struct strict_peer *peer, int error);

#endif /* STRICT_H */
