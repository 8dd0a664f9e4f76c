/* SPDX-License-Identifier: BSD-3-Clause */
/* A network that exists in memory only, with an engine for put and get at each end. It moves
 * nothing until a test calls for the next event, so that each test is deterministic. */

#ifndef RMA_NET_H
#define RMA_NET_H

#include "kit_rma.h"
#include "rma_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NET_ENDS       3u
#define NET_PIECE      4096u
#define NET_MEMORY     (16u * NET_PIECE + 100u)
#define NET_SCRIBBLE   0xDDu /* written by a test to memory that it got back */
#define NET_FIRST_TAG  5000u
#define NET_TIMEOUT_MS 4000u
#define NET_INLINE     100u                       /* largest inline transfer, in bytes */
#define NET_APART      (KIT_RMA_CONTROL_MAX + 3u) /* the same when the owner copies */
#define NET_PART       (5u * NET_PIECE)           /* bytes of a one-sided transfer at a time */
#define NET_EXPOSURES  64u
#define NET_EAGER      (2u * NET_PIECE) /* largest put whose bytes are in its REQUEST */

/* The reaction of the network to piece_cancel. */
enum net_cancel {
    NET_CANCEL_AT_ONCE,
    NET_CANCEL_RELEASES, /* refused; the memory is released one event later, the piece continues */
    NET_CANCEL_NEVER,    /* refused; the memory is used until the piece ends */
    NET_CANCEL_ENDS,     /* refused; the piece ends inside the call */
};

struct net;

/* An endpoint, which the other ones use as their peer pointer. */
struct net_end {
    struct net *net;
    struct kit_rma *ts;
    unsigned int receives;      /* posted at present */
    unsigned int most_receives; /* most at a time */
    unsigned int most_sends;
    unsigned int sends;
    unsigned int records;       /* sent by this end */
    unsigned int device_pieces; /* pieces from or to memory that is not the host's */
    int holds;                  /* references to this end as a peer */
    uint32_t room;              /* bytes that fit its inline records; 0: NET_APART */
    bool is_mute;               /* its messages are lost */
};

struct net_event;

/* Memory that an origin exposes to its target. */
struct net_exposure {
    uint8_t *memory;
    uint64_t length;
    bool is_open;
    bool is_moved; /* the part exposed last was moved */
};

struct net {
    struct net_end ends[NET_ENDS];
    struct net_event *first, *last;
    struct net_receive *posted;
    enum net_cancel cancel;
    bool is_sent_at_once;     /* a send completes inside the call */
    enum kit_rma_mover mover; /* for transfers that are too large for one record */
    bool is_refused;          /* targets cannot attach */
    bool is_ordered;          /* records arrive after the data of earlier moves */
    struct net_exposure exposures[NET_EXPOSURES];
    unsigned int exposed;                    /* how many are open */
    unsigned int control_again, piece_again; /* how many calls are refused first */
    int32_t control_error;                   /* not 0: the next record fails with this status */
    int32_t piece_error;                     /* the same for the next piece */
    int32_t deliver_error;                   /* the same for the next piece that was accepted */
    uint64_t deliver_size;                   /* not 0: size of the next piece */
    unsigned int puts;                       /* calls of data_send */
    unsigned int takes;                      /* calls of data_take */
    unsigned int lost_receives;              /* pieces that arrived without a receive */
    uint64_t now_ns;
};

/* A put or get. */
struct net_op {
    struct kit_rma_transfer *transfer;
    int done;
    int32_t status;
    uint8_t *memory; /* local, of NET_MEMORY bytes */
    uint8_t *frozen; /* its contents when the operation completed */
};

void net_open(struct net *net, const struct kit_rma_config *limits);

/* Opens a network with another mover than pieces; small transfers are inline, and puts up to
 * NET_EAGER. */
void net_open_mover(struct net *net, enum kit_rma_mover mover);

/* Opens a network whose transfers are all inline, with owners that copy the bytes themselves. */
void net_open_apart(struct net *net);

/* Closes the network; the first one requires that nothing is in flight. */
void net_close(struct net *net);
void net_close_busy(struct net *net);

/* Processes one event; false when there is none. */
bool net_step(struct net *net);
void net_run(struct net *net);

/* Drops all messages in flight, as when a connection is lost. */
void net_lose(struct net *net);
void net_poll(struct net *net, unsigned int ms);

struct kit_region *net_region(struct net_end *end, void *base, uint64_t length, uint32_t flags);

/* Serializes a region and deserializes it at `to`. */
struct kit_region *net_remote(struct net_end *to, struct net_end *from, struct kit_region *memory);

void net_op_init(struct net_op *op);
void net_op_free(struct net_op *op);
int32_t net_start(struct net_end *end, struct net_end *peer, struct net_op *op,
                  struct kit_region *local, struct kit_region *remote, uint64_t offset,
                  uint64_t length, bool is_put);

/* Abandons an operation as its owner does; true when it is complete at once. */
bool net_abandon(struct net_end *end, struct net_op *op, int32_t status, bool is_peer_gone);

/* Checks that the operation completed once, with this status, and that its memory was not written
 * afterwards (a test may have scribbled over that of a put). */
void net_op_check(const struct net_op *op, int32_t status);

bool net_end_is_idle(const struct net_end *end);

#endif /* RMA_NET_H */
