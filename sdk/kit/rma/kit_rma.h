/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get for plugins whose target has a part in them, with a cancel that works at both sides.
 *
 * This library is linked statically into a plugin, its owner, which gives it a way to send small
 * control records and its ways of moving bytes (struct kit_rma_ops). The owner's functions for
 * memory handles, put and get become a line or two. Nothing here knows of a network.
 *
 * One protocol: the origin sends a REQUEST that names a region of the target by id and random key.
 * The target holds it against its registered regions, their access flags and bounds; a request that
 * is not right is refused, and nothing was read or written. Then one of four movers moves the bytes
 * (enum kit_rma_mover), and DONE, or the last byte of a get, completes the transfer at its origin.
 *
 * - Pieces: messages of the network, to receives that were posted for them. Whoever receives the
 *   data, the target of a put or the origin of a get, posts receives for some pieces first and
 *   grants the other side their tags, so each piece finds its receive waiting and goes where it
 *   belongs without a copy in between; each piece that came makes room for the next.
 * - Inline: in the control records, for the smallest transfers and where nothing else works; a put
 *   that is small also whole, behind its REQUEST, where the owner can send that. An owner that
 *   copies the bytes itself has records of any size, and memory in pieces.
 * - Attach: the target copies between its memory and that of the origin's process.
 * - One-sided: the target reads or writes the origin's memory over the network, which the origin
 *   exposes for as long as the transfer takes.
 *
 * Each side can end a transfer early. The side that moves the bytes says STOP, and touches nothing
 * of the other side's afterwards; the other side sends CANCEL and waits for that. Until then the
 * receives of pieces stay posted and the owner drops their data, so that no late piece is ever
 * taken for another one.
 *
 * Rules:
 * - Everything here is called with one lock held, the owner's, which guards the whole object; all
 *   functions of struct kit_rma_ops are called under it. There is no lock, no thread and no system
 *   call inside. Nothing blocks.
 * - kit_rma_control(), kit_rma_control_data(), kit_rma_piece_done(), kit_rma_piece_released(),
 *   kit_rma_move_done(), kit_rma_peer_failed() and kit_rma_abandon() may be called at any time,
 *   also inside of a function of struct kit_rma_ops: what they say is noted down, and
 *   kit_rma_poll() acts on it. All others are called from outside of those functions, but for
 *   kit_rma_start() in transfer_done.
 * - A peer is a pointer of the owner's that is compared and handed back. It stays valid until
 *   kit_rma_peer_failed() was called for it or, where peer_hold and peer_release exist, until the
 *   last release.
 * - Status values are the NA_PLUGIN_* constants.
 * - In the steady state nothing is allocated: objects come from pools that grow.
 *
 * Since 1.1.
 */

#ifndef KIT_RMA_H
#define KIT_RMA_H

#include "kit_region.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Largest control record, in bytes, and the largest that every owner has to be able to send. */
#define KIT_RMA_CONTROL_MAX 1024u
#define KIT_RMA_CONTROL_MIN 256u

/* Bytes of a control record that are not data (config.inline_size). */
#define KIT_RMA_RECORD_SIZE 72u

/* Most bytes by which a target reaches exposed memory (struct kit_rma_exposure). */
#define KIT_RMA_NOTE_MAX 64u

struct kit_rma;          /* one for each endpoint */
struct kit_rma_request;  /* one put or get, as it is asked for */
struct kit_rma_transfer; /* one put or get at its origin, until it is reported */

/* What moves the bytes of a transfer. The numbers travel. */
enum kit_rma_mover {
    KIT_RMA_PIECES,    /* needs piece_send, piece_recv, piece_cancel, piece_withdraw */
    KIT_RMA_INLINE,    /* needs config.inline_size; puts up to config.eager_size: data_send */
    KIT_RMA_ATTACH,    /* needs process, attach_refused */
    KIT_RMA_ONE_SIDED, /* needs expose, expose_check, conceal, move */
    KIT_RMA_MOVERS
};

/*
 * A piece that is being sent or received: `size` bytes at `memory`, to or from `peer`, as a message
 * that carries `tag`. It exists from the call of piece_send or piece_recv that accepted it until
 * kit_rma_piece_done(). `priv` is config.piece_private bytes of the owner's, 16-aligned, with
 * whatever the last use of this object left there (zeroes at first).
 */
struct kit_rma_piece {
    void *peer;
    void *memory;
    uint64_t size;
    uint32_t tag;
    uint32_t is_send;
    uint32_t is_device; /* the memory of one of both sides is not the host's */
    void *priv;
};

/*
 * Memory of an origin that the target of a one-sided transfer reads (`is_put`) or writes: `length`
 * bytes at `memory`, of which those from `offset` on, `size` of them, are moved next. `priv` is
 * config.transfer_private bytes of the owner's, 16-aligned and zero-filled at first.
 */
struct kit_rma_exposure {
    void *peer;
    void *memory;
    uint64_t length;
    uint64_t offset;
    uint64_t size;
    uint32_t is_put;
    void *priv;
};

/*
 * A one-sided move at its target: `size` bytes from (`is_put`) or to the origin's memory, which the
 * note describes, to or from `memory`. It exists until kit_rma_move_done(). `priv` is as above.
 */
struct kit_rma_move {
    void *peer;
    void *memory;
    uint64_t size;
    const void *note;
    uint32_t note_size;
    uint32_t is_put;
    uint32_t is_ordered; /* set by the owner: records to the peer arrive behind the data */
    void *priv;
};

/* What the owner does. `owner` is config.owner. Functions of movers that it has not are NULL. */
struct kit_rma_ops {
    /*
     * Sends a control record of at most config.control_size bytes, which are copied. Records to
     * one peer arrive whole and in order, at kit_rma_control() there, as long as the peer does
     * not fail. Success, or NA_PLUGIN_AGAIN or NA_PLUGIN_NOMEM: tried again in kit_rma_poll().
     * Anything else: the peer failed.
     */
    int32_t (*control_send)(void *owner, void *peer, const void *data, uint32_t size);

    /*
     * Sends a record and behind it `size` bytes of the region from `offset` on, for
     * kit_rma_control_data() at the peer: the REQUEST of a put of up to config.eager_size with all
     * of its bytes, or with data_take all bytes that are moved inline. Returns as control_send
     * does, and both were copied or have left then. Without data_take other records may arrive
     * before. Optional.
     */
    int32_t (*data_send)(void *owner, void *peer, const void *record, uint32_t record_size,
                         const struct kit_region *region, uint64_t offset, uint32_t size);

    /*
     * Writes the bytes that kit_rma_control_data() was told of to the region, where they have room,
     * inside of that call. `data` is what it was given. Optional: then that is their address, a
     * region lies at its base, and what is sent inline is limited by config.control_size.
     */
    void (*data_take)(void *owner, const struct kit_region *region, uint64_t offset,
                      const void *data, uint32_t size);

    /*
     * Bytes of data in a record to the peer, where that is not config.inline_size for all; no more
     * than that, and what a transfer begins with stays possible. Optional, with data_take.
     */
    uint32_t (*inline_size)(void *owner, void *peer);

    /*
     * The mover of a transfer that is too large for one record; asked again after attach_refused.
     * Optional: KIT_RMA_PIECES.
     */
    enum kit_rma_mover (*mover)(void *owner, const struct kit_rma_request *request);

    /*
     * The process behind a peer of this node, whose memory the target of an attached transfer may
     * touch. NA_PLUGIN_OPNOTSUPPORTED when there is none: the origin chooses another mover.
     */
    int32_t (*process)(void *owner, void *peer, uint32_t *pid_p);

    /* The target said, or the system did, that it cannot touch the memory of this process. */
    void (*attach_refused)(void *owner, void *peer);

    /*
     * Lets the target reach the memory, and writes what it needs for that, at most KIT_RMA_NOTE_MAX
     * bytes, to `note`. Called for each part of a transfer (config.part_size) with the same `priv`.
     * An error ends the transfer; NA_PLUGIN_AGAIN: tried again in kit_rma_poll().
     */
    int32_t (*expose)(void *owner, struct kit_rma_exposure *exposure, void *note,
                      uint32_t *note_size);

    /* The target says that it moved the part. Another status than success: it did not arrive. */
    int32_t (*expose_check)(void *owner, struct kit_rma_exposure *exposure);

    /* The target reaches the memory no more when this returns. Called once after expose. */
    void (*conceal)(void *owner, struct kit_rma_exposure *exposure);

    /*
     * Starts to move. Success: kit_rma_move_done() follows, perhaps inside the call; the note is
     * valid in the call alone. NA_PLUGIN_AGAIN: tried again in kit_rma_poll(). Anything else: the
     * transfer fails with it. The note comes from the peer: nothing in it is trusted.
     */
    int32_t (*move)(void *owner, struct kit_rma_move *move);

    /*
     * Starts to send or receive a piece. A receive takes the one message with the piece's tag from
     * the piece's peer, which is sent after it was posted. Success: kit_rma_piece_done() follows,
     * perhaps inside the call. NA_PLUGIN_AGAIN: not now; tried again in kit_rma_poll(). Anything
     * else: the transfer fails with it.
     */
    int32_t (*piece_send)(void *owner, struct kit_rma_piece *piece);
    int32_t (*piece_recv)(void *owner, struct kit_rma_piece *piece);

    /*
     * Asks the network to leave the piece's memory alone as soon as possible. True: it does so from
     * now on, neither reading nor writing; the owner drops what still arrives for it. False: it
     * does not yet; kit_rma_piece_released() or kit_rma_piece_done() says when, perhaps inside the
     * call. Called at most once for a piece. The piece goes on: a receive stays to swallow its
     * message, which may be under way, until that came (kit_rma_piece_done(), the status is of no
     * matter) or piece_withdraw is called; a send ends when the network is done with it.
     */
    bool (*piece_cancel)(void *owner, struct kit_rma_piece *piece);

    /*
     * The message for this receive will not come, or its peer is gone: it is to end soon, by
     * kit_rma_piece_done() with any status, perhaps inside the call. Also called for sends when
     * their peer is gone. piece_cancel was called before.
     */
    void (*piece_withdraw)(void *owner, struct kit_rma_piece *piece);

    /*
     * A put or get of kit_rma_start() is over and its local memory is not touched any more; the
     * transfer is gone afterwards. `cookie` is what the start was given. Called by kit_rma_poll()
     * and kit_rma_mem_deregister() alone; may call kit_rma_start().
     */
    void (*transfer_done)(void *owner, void *cookie, int32_t status);

    /*
     * Keeps the peer pointer valid while transfers concern it: one release for each hold. Optional,
     * both or neither: then it is valid until kit_rma_peer_failed().
     */
    void (*peer_hold)(void *owner, void *peer);
    void (*peer_release)(void *owner, void *peer);
};

/* What kit_rma_open() is told; copied. Zeroes choose the defaults where there are some. */
struct kit_rma_config {
    const struct kit_rma_ops *ops; /* valid as long as the object */
    void *owner;
    const char *plugin;          /* name, for the log; valid as long as the object */
    struct kit_regions *regions; /* the owner's, valid as long as the object; NULL: of its own */
    uint32_t control_size;       /* bytes of the largest record; KIT_RMA_CONTROL_MIN */
    uint32_t inline_size;        /* most data in a record; both sides have the same; 0: never */
    uint32_t eager_size;         /* bytes of a put that data_send takes; both the same; 0: never */
    uint32_t part_size;          /* bytes of a one-sided transfer at a time; 4 MiB */
    uint32_t transfer_private;   /* bytes of the owner's in an exposure and in a move */
    uint32_t piece_size;    /* bytes of a piece, at least 4096; both sides have the same; 256 KiB */
    uint32_t window;        /* pieces in progress of one transfer, at most 16; 4 */
    uint32_t max_sends;     /* pieces being sent, of all transfers; 64 */
    uint32_t max_receives;  /* receives posted, of all transfers, but for those that stall; 64 */
    uint32_t first_tag;     /* of the pieces that we receive: first_tag .. + tag_count - 1 */
    uint32_t tag_count;     /* at least 1024; at most 65536 are used; 65536 */
    uint32_t peer_tag_low;  /* tags that peers may name, from here */
    uint32_t peer_tag_high; /* to here, inclusive; 0: the same as ours */
    uint32_t piece_private; /* bytes of the owner's in each piece */
    uint32_t timeout_ms;    /* silence of an origin after which its transfer is abandoned; 30000 */
};

/* ------------------------------------------------------------------------------------------------
 * Life
 */

/*
 * Makes the object, which kit_rma_close() frees. NA_PLUGIN_SUCCESS, NA_PLUGIN_INVALID_ARG for a
 * config out of range (logged), NA_PLUGIN_NOMEM, NA_PLUGIN_IO_ERROR without random numbers.
 */
int32_t kit_rma_open(const struct kit_rma_config *config, struct kit_rma **kit_rma_p);

/* How an owner that seals its control records moves all bytes in them; as in kit_rma_ops. */
struct kit_rma_sealed {
    int32_t (*data_send)(void *owner, void *peer, const void *record, uint32_t record_size,
                         const struct kit_region *region, uint64_t offset, uint32_t size);
    void (*data_take)(void *owner, const struct kit_region *region, uint64_t offset,
                      const void *data, uint32_t size);
    uint32_t inline_size; /* in place of config's */
};

/*
 * From now on bytes move in control records alone, up to `inline_size` in each, which come to
 * kit_rma_control(): what a peer asks to be moved in another way is refused, and so is what comes
 * to kit_rma_control_data(). Before the first transfer; later calls do nothing.
 */
void kit_rma_inline_only(struct kit_rma *rma, const struct kit_rma_sealed *sealed);

/*
 * From now on a peer's request is refused (NA_PLUGIN_PERMISSION) unless this function, which is
 * called with what kit_region_find() has found for it, says that the peer may reach that region.
 * Before the first transfer.
 */
void kit_rma_ask(struct kit_rma *rma,
                 bool (*may_reach)(void *owner, void *peer, struct kit_region *region));

/*
 * Frees it, with all memory handles, without another call of ops but conceal and peer_release: the
 * owner has stopped its network before, so that nothing refers to a piece. NULL is allowed.
 */
void kit_rma_close(struct kit_rma *rma);

/* ------------------------------------------------------------------------------------------------
 * Memory: for the functions of the same names in the plugin's table. An owner whose handles are
 * more than regions has config.regions and functions of its own, and calls kit_rma_region_leave()
 * alone.
 */

/*
 * Describes memory; kit_rma_mem_destroy() frees *memory_p. NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or
 * NA_PLUGIN_INVALID_ARG when it does not lie in the address space.
 */
int32_t kit_rma_mem_create(struct kit_rma *rma, void *base, uint64_t length, uint32_t flags,
                           struct kit_region **memory_p);

/* Frees a handle of either kind; a registered one is idle (see kit_rma_mem_deregister()). */
void kit_rma_mem_destroy(struct kit_rma *rma, struct kit_region *memory);

/* Lets peers in as the flags say. Host memory only (NA_PLUGIN_OPNOTSUPPORTED). Idempotent. */
int32_t kit_rma_mem_register(struct kit_rma *rma, struct kit_region *memory, uint32_t mem_type);

/*
 * Keeps peers out from now on; their transfers of this memory end with an error. True: it is not
 * touched any more. False: pieces are in the network's hands, or those of transfers of ours that
 * were abandoned (kit_rma_abandon()) and completed all the same, with their context; the owner
 * polls it, and calls this again until it is true.
 */
bool kit_rma_mem_deregister(struct kit_rma *rma, struct kit_region *memory);

/*
 * The same for a region that was taken out of the table by kit_region_deregister(): peers'
 * transfers of it end. True: it is not touched any more.
 */
bool kit_rma_region_leave(struct kit_rma *rma, const struct kit_region *region);

/*
 * While kit_rma_region_leave() is false: a peer whose transfer may still touch the memory. When the
 * way to it is broken, kit_rma_peer_failed() ends that. NULL: it is touched by none.
 */
void *kit_rma_region_peer(const struct kit_rma *rma, const struct kit_region *region);

/*
 * Writes the form that travels, KIT_REGION_PACKED bytes. NA_PLUGIN_OVERFLOW when `size` is
 * less, NA_PLUGIN_INVALID_ARG when it is not registered.
 */
int32_t kit_rma_mem_serialize(struct kit_rma *rma, const struct kit_region *memory, void *buf,
                              uint64_t size);

/*
 * Makes a handle of it, which kit_rma_mem_destroy() frees. NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or
 * NA_PLUGIN_PROTOCOL_ERROR when the bytes are none.
 */
int32_t kit_rma_mem_deserialize(struct kit_rma *rma, const void *buf, uint64_t size,
                                struct kit_region **memory_p);

/* ------------------------------------------------------------------------------------------------
 * Put and get at the origin
 */

/* One put or get. The core has checked ranges and flags of the two handles. */
struct kit_rma_request {
    void *peer; /* whose memory it is; of no matter when `remote` is memory of this very object */
    struct kit_region *local;
    uint64_t local_offset;
    struct kit_region *remote;
    uint64_t remote_offset;
    uint64_t length; /* not 0 */
    uint32_t is_put;
    void *cookie; /* for transfer_done */
};

/*
 * Starts it. Success: ops.transfer_done follows, until which *transfer_p is valid, or with
 * `*transfer_p` NULL it is done already, as with a handle that came back to the process that made
 * it. An error: it is over, and nothing follows.
 */
int32_t kit_rma_start(struct kit_rma *rma, const struct kit_rma_request *request,
                      struct kit_rma_transfer **transfer_p);

/*
 * Ends it early with `status`. True: the local memory is not touched any more, the transfer is gone
 * and transfer_done is not called for it; the target is told by the next poll. False: transfer_done
 * is called with `status` as soon as the network lets go of the memory. `is_peer_gone`: the peer
 * cannot be told.
 */
bool kit_rma_abandon(struct kit_rma *rma, struct kit_rma_transfer *transfer, int32_t status,
                     bool is_peer_gone);

/* ------------------------------------------------------------------------------------------------
 * What the owner reports
 */

/* A control record came. Nothing in it is trusted; what is not right is dropped and counted. */
void kit_rma_control(struct kit_rma *rma, void *peer, const void *data, uint64_t size);

/* What ops.data_send sent came. Nothing in both is trusted. */
void kit_rma_control_data(struct kit_rma *rma, void *peer, const void *record, uint64_t record_size,
                          const void *data, uint64_t size);

/*
 * The network is done with a piece. `size` is that of the message which was received; another size
 * than the piece's fails the transfer. The piece is gone afterwards.
 */
void kit_rma_piece_done(struct kit_rma *rma, struct kit_rma_piece *piece, int32_t status,
                        uint64_t size);

/* After piece_cancel said false: the memory is left alone now, the piece itself goes on. */
void kit_rma_piece_released(struct kit_rma *rma, struct kit_rma_piece *piece);

/*
 * The network is done with a one-sided move, and with its memory. Another status than success: what
 * was moved is unknown. The move is gone afterwards.
 */
void kit_rma_move_done(struct kit_rma *rma, struct kit_rma_move *move, int32_t status);

/*
 * The peer is gone, or is not the process any more that it was; with NULL the way to each peer is
 * lost. Its transfers end, ours to it with `status`, which the next poll reports. What it sends
 * later under the same pointer is of a new life.
 */
void kit_rma_peer_failed(struct kit_rma *rma, void *peer, int32_t status);

/*
 * Acts on what was reported, reports what is over, retries what the owner had no room for, and
 * looks after time-outs. To be called in each poll, after what the network brought was reported;
 * costs a few comparisons when there is nothing to do. `now_ns` is kit_host->clock_ns(), or 0 when
 * the caller did not look: then time-outs are not looked at. Looking once in some hundred
 * milliseconds is enough.
 */
void kit_rma_poll(struct kit_rma *rma, uint64_t now_ns);

/* True when kit_rma_poll() has something to do: it is not the time to sleep for long. */
bool kit_rma_has_work(const struct kit_rma *rma);

/* True when transfers, of ours or for a peer, are under way or closing. */
bool kit_rma_is_active(const struct kit_rma *rma);

/* Numbers for tests and for the log. */
struct kit_rma_counters {
    uint64_t records_bad;           /* control records that were none */
    uint64_t records_stale;         /* for a transfer that is over */
    uint64_t refused;               /* requests with a bad handle, range or flag */
    uint64_t pieces_late;           /* that came after their transfer had ended, and were dropped */
    uint64_t timeouts;              /* transfers abandoned because their origin was silent */
    uint32_t transfers;             /* ours that are under way */
    uint32_t targets;               /* of peers that are under way */
    uint32_t closing;               /* transfers that are over but for the network's part */
    uint32_t sends;                 /* pieces under way, */
    uint32_t receives;              /* and those that are awaited */
    uint64_t moved[KIT_RMA_MOVERS]; /* transfers of ours that were begun, by their mover */
};

/* Copies them. */
void kit_rma_counters_get(const struct kit_rma *rma, struct kit_rma_counters *counters);

#ifdef __cplusplus
}
#endif

#endif /* KIT_RMA_H */
