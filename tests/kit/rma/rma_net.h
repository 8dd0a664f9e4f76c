/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network that exists in memory only, and owners of the emulated put and get at its ends. Nothing
 * moves but when a test says so, one event at a time, so that each test runs the same every time.
 */

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
#define NET_SCRIBBLE   0xDDu /* what a test writes to memory that it got back */
#define NET_FIRST_TAG  5000u
#define NET_TIMEOUT_MS 4000u
#define NET_INLINE     100u                       /* bytes in a record */
#define NET_APART      (KIT_RMA_CONTROL_MAX + 3u) /* the same where the owner copies */
#define NET_PART       (5u * NET_PIECE)           /* of a one-sided transfer at a time */
#define NET_EXPOSURES  64u
#define NET_EAGER      (2u * NET_PIECE) /* of a put inline, with its REQUEST */

/* How the network answers piece_cancel. */
enum net_cancel {
    NET_CANCEL_AT_ONCE,
    NET_CANCEL_RELEASES, /* no; the memory is released one event later, the piece goes on */
    NET_CANCEL_NEVER,    /* no; the memory is touched until the piece ends */
    NET_CANCEL_ENDS,     /* no; the piece ends inside of the call */
};

struct net;

/* An endpoint; also what the others have as peer pointer. */
struct net_end {
    struct net *net;
    struct kit_rma *ts;
    unsigned int receives;      /* posted now */
    unsigned int most_receives; /* at a time */
    unsigned int most_sends;
    unsigned int sends;
    unsigned int records;       /* that it has sent */
    unsigned int device_pieces; /* sent or received, of memory that is not the host's */
    int holds;                  /* of this one as a peer */
    uint32_t room;              /* bytes of its records inline; 0: NET_APART */
    bool is_mute;               /* what it sends is lost */
};

struct net_event;

/* Memory that an origin lets its target reach. */
struct net_exposure {
    uint8_t *memory;
    uint64_t length;
    bool is_open;
    bool is_moved; /* the part that was exposed last */
};

struct net {
    struct net_end ends[NET_ENDS];
    struct net_event *first, *last;
    struct net_receive *posted;
    enum net_cancel cancel;
    bool is_sent_at_once;     /* sends are done inside of the call */
    enum kit_rma_mover mover; /* of what is too large for one record */
    bool is_refused;          /* no target may attach */
    bool is_ordered;          /* records arrive behind the data of moves */
    struct net_exposure exposures[NET_EXPOSURES];
    unsigned int exposed;                    /* so many of them are open */
    unsigned int control_again, piece_again; /* so many calls are refused first */
    int32_t control_error;                   /* the next one fails with it, if not 0 */
    int32_t piece_error;                     /* likewise a piece */
    int32_t deliver_error;                   /* likewise a piece that was accepted */
    uint64_t deliver_size;                   /* not 0: the next piece has this size */
    unsigned int puts;                       /* records that data_send took */
    unsigned int takes;                      /* calls of data_take */
    unsigned int lost_receives;              /* pieces that found no receive */
    uint64_t now_ns;
};

/* A put or get. */
struct net_op {
    struct kit_rma_transfer *transfer;
    int done;
    int32_t status;
    uint8_t *memory; /* local, of NET_MEMORY bytes */
    uint8_t *frozen; /* what it was when the operation was done */
};

void net_open(struct net *net, const struct kit_rma_config *limits);

/* The same with another mover than pieces, and small transfers inline, puts up to NET_EAGER. */
void net_open_mover(struct net *net, enum kit_rma_mover mover);

/* The same, all inline, with owners that copy the bytes themselves. */
void net_open_apart(struct net *net);

/* Checks that nothing is under way before. */
void net_close(struct net *net);
void net_close_busy(struct net *net);

/* One event; false when there is none. */
bool net_step(struct net *net);
void net_run(struct net *net);

/* All that is on the way is lost, as when a connection breaks. */
void net_lose(struct net *net);
void net_poll(struct net *net, unsigned int ms);

struct kit_region *net_region(struct net_end *end, void *base, uint64_t length, uint32_t flags);

/* What `to` makes of a region that was serialized for it. */
struct kit_region *net_remote(struct net_end *to, struct net_end *from, struct kit_region *memory);

void net_op_init(struct net_op *op);
void net_op_free(struct net_op *op);
int32_t net_start(struct net_end *end, struct net_end *peer, struct net_op *op,
                  struct kit_region *local, struct kit_region *remote, uint64_t offset,
                  uint64_t length, bool is_put);

/* As an owner ends one: true when it is over at once. */
bool net_abandon(struct net_end *end, struct net_op *op, int32_t status, bool is_peer_gone);

/* Done as said, once, and its memory was left alone since; a put's may have been scribbled over. */
void net_op_check(const struct net_op *op, int32_t status);

bool net_end_is_idle(const struct net_end *end);

#endif /* RMA_NET_H */
