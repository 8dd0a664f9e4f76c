/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Put and get for networks whose target takes part in a transfer. Both sides can cancel one.
 *
 * A plugin, the owner, links this library statically and gives it a function that sends small
 * control records and the ways in which its network moves bytes (struct kit_rma_ops). Nothing here
 * knows of a network.
 *
 * Protocol: the origin sends a REQUEST that names a region of the target by id and random key. The
 * target checks it against its registered regions, their access flags and bounds, and refuses an
 * invalid request before any byte is read or written. Then one of four movers moves the bytes
 * (enum kit_rma_mover), and DONE, or the last byte of a get, completes the transfer at its origin.
 *
 * - Pieces: messages of the network. The side that receives the data, the target of a put or the
 *   origin of a get, first posts receives for some pieces and grants their tags to the sender, so
 *   that each piece arrives in a posted receive without an intermediate copy. Each piece that
 *   completes makes room for the next.
 * - Inline: the bytes travel in the control records, for the smallest transfers and where no other
 *   mover works. If the owner has data_send, a small put travels whole behind its REQUEST. An owner
 *   that copies the bytes itself (data_take) may have larger records and non-contiguous memory.
 * - Attach: the target copies between its memory and that of the origin's process.
 * - One-sided: the target reads or writes the origin's memory over the network. The origin exposes
 *   that memory for as long as the transfer takes.
 *
 * Each side can end a transfer early. The side that moves the bytes sends STOP, and touches no
 * memory of the other side afterwards; the other side sends CANCEL and waits for STOP. Until then
 * the receives of pieces stay posted and the owner drops their data, so that a late piece is never
 * matched to a receive of another transfer.
 *
 * Rules:
 * - The owner holds one lock of its own, which guards the whole object, when it calls a function of
 *   this header; so all functions of struct kit_rma_ops are called under it. The library has no
 *   lock and no thread of its own and never blocks.
 * - kit_rma_control(), kit_rma_control_data(), kit_rma_piece_done(), kit_rma_piece_released(),
 *   kit_rma_move_done(), kit_rma_peer_failed() and kit_rma_abandon() may be called at any time,
 *   also from a function of struct kit_rma_ops: they mark transfers, and kit_rma_poll() acts on
 *   the marks. No other function may be called from one of struct kit_rma_ops, except
 *   kit_rma_start() from transfer_done.
 * - A peer is a pointer of the owner's, only compared and passed back. It stays valid until
 *   kit_rma_peer_failed() was called for it or, where peer_hold and peer_release exist, until the
 *   last release.
 * - Status values are the NA_PLUGIN_* constants.
 * - Objects come from pools that grow, so nothing is allocated in the steady state.
 *
 * Since 1.1.
 */

#ifndef KIT_RMA_H
#define KIT_RMA_H

#include "kit_region.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bounds of config.control_size, the largest control record, in bytes. */
#define KIT_RMA_CONTROL_MAX 1024u
#define KIT_RMA_CONTROL_MIN 256u

/* Bytes of a control record without its data (config.inline_size). */
#define KIT_RMA_RECORD_SIZE 72u

/* Largest note, in bytes: the owner's description of exposed memory (struct kit_rma_exposure). */
#define KIT_RMA_NOTE_MAX 64u

struct kit_rma;          /* one for each endpoint */
struct kit_rma_request;  /* arguments of one put or get */
struct kit_rma_transfer; /* one put or get at its origin, until it is reported */

/* How the bytes of a transfer are moved. The values are part of the wire format. */
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
 * kit_rma_piece_done(). `priv` is config.piece_private bytes of the owner's, 16-aligned, zeroed
 * when the object is first allocated and not when it is reused.
 */
struct kit_rma_piece {
    void *peer;
    void *memory;
    uint64_t size;
    uint32_t tag;
    uint32_t is_send;
    uint32_t is_device; /* one side's memory, or both sides', is not host memory */
    void *priv;
};

/*
 * Memory of an origin that the target of a one-sided transfer reads (`is_put`) or writes: `length`
 * bytes at `memory`, of which `size` bytes from `offset` on are moved next. `priv` is
 * config.transfer_private bytes of the owner's, 16-aligned, zeroed for each transfer.
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
 * note describes, to or from `memory`. It exists until kit_rma_move_done(). `priv`: as in struct
 * kit_rma_exposure.
 */
struct kit_rma_move {
    void *peer;
    void *memory;
    uint64_t size;
    const void *note;
    uint32_t note_size;
    uint32_t is_put;
    uint32_t is_ordered; /* set by the owner: later records to the peer arrive after the data */
    void *priv;
};

/* The owner's functions. `owner` is config.owner. Those of movers that the owner lacks are NULL. */
struct kit_rma_ops {
    /*
     * Sends a control record of at most config.control_size bytes, which are copied. Records to
     * one peer are delivered whole and in order, to kit_rma_control() there, unless the peer fails.
     * NA_PLUGIN_AGAIN or NA_PLUGIN_NOMEM: kit_rma_poll() tries again. Any other error: the peer
     * failed.
     */
    int32_t (*control_send)(void *owner, void *peer, const void *data, uint32_t size);

    /*
     * Sends a record and behind it `size` bytes of the region from `offset` on, for
     * kit_rma_control_data() at the peer: the REQUEST of a put of up to config.eager_size bytes
     * with all of them, or, with data_take, each record of an inline transfer with its bytes.
     * Returns as control_send does; on success record and bytes were copied or sent. Without
     * data_take later records may overtake this one. Optional.
     */
    int32_t (*data_send)(void *owner, void *peer, const void *record, uint32_t record_size,
                         const struct kit_region *region, uint64_t offset, uint32_t size);

    /*
     * Copies `size` bytes to the region, whose bounds were checked. Called inside of
     * kit_rma_control_data() (or kit_rma_control(), see kit_rma_inline_only()) with the `data` that
     * the owner passed there. Optional: without it `data` is the address of the bytes, the memory
     * of a region is contiguous at its base, and an inline record is at most config.control_size.
     */
    void (*data_take)(void *owner, const struct kit_region *region, uint64_t offset,
                      const void *data, uint32_t size);

    /*
     * Bytes of data in one record to this peer, at most config.inline_size. A transfer keeps the
     * size with which it began, so a record of that size must stay possible. Optional, with
     * data_take; otherwise config.inline_size for all peers.
     */
    uint32_t (*inline_size)(void *owner, void *peer);

    /*
     * Chooses the mover of a transfer that is too large for one record; called again after
     * attach_refused. Optional: KIT_RMA_PIECES.
     */
    enum kit_rma_mover (*mover)(void *owner, const struct kit_rma_request *request);

    /*
     * Returns the process of a peer on this node, whose memory the target of an attached transfer
     * reads or writes. NA_PLUGIN_OPNOTSUPPORTED if there is none: the origin chooses another mover.
     */
    int32_t (*process)(void *owner, void *peer, uint32_t *pid_p);

    /* The target reports that it cannot attach to the memory of this process. */
    void (*attach_refused)(void *owner, void *peer);

    /*
     * Exposes the memory to the target, and writes to `note` what the target needs to reach it, at
     * most KIT_RMA_NOTE_MAX bytes. Called for each part of a transfer (config.part_size) with the
     * same `priv`. NA_PLUGIN_AGAIN or NA_PLUGIN_NOMEM: kit_rma_poll() tries again. Any other error
     * ends the transfer.
     */
    int32_t (*expose)(void *owner, struct kit_rma_exposure *exposure, void *note,
                      uint32_t *note_size);

    /* The target reports that it moved the part. An error: the bytes did not arrive. */
    int32_t (*expose_check)(void *owner, struct kit_rma_exposure *exposure);

    /* When this returns the target cannot reach the memory. Called once after any expose. */
    void (*conceal)(void *owner, struct kit_rma_exposure *exposure);

    /*
     * Starts the move. Success: kit_rma_move_done() follows, perhaps inside the call.
     * NA_PLUGIN_AGAIN or NA_PLUGIN_NOMEM: kit_rma_poll() tries again. Any other error: the transfer
     * fails with it. The note is valid during the call only; the peer wrote it, so it is not
     * trusted.
     */
    int32_t (*move)(void *owner, struct kit_rma_move *move);

    /*
     * Starts to send or receive a piece. A receive matches the one message with the piece's tag
     * from the piece's peer, which is sent after the receive was posted. Success:
     * kit_rma_piece_done() follows, perhaps inside the call. NA_PLUGIN_AGAIN or NA_PLUGIN_NOMEM:
     * kit_rma_poll() tries again. Any other error: the transfer fails with it.
     */
    int32_t (*piece_send)(void *owner, struct kit_rma_piece *piece);
    int32_t (*piece_recv)(void *owner, struct kit_rma_piece *piece);

    /*
     * Asks the network to stop using the piece's memory as soon as possible. True: the network
     * neither reads nor writes it from now on, and the owner drops data that still arrives. False:
     * not yet; kit_rma_piece_released() or kit_rma_piece_done() follows, perhaps inside the call.
     * Called at most once for a piece. The piece itself goes on: a receive stays posted to consume
     * its message, which may be in flight, until that arrived (kit_rma_piece_done() with any
     * status) or piece_withdraw is called; a send ends when the network completes it.
     */
    bool (*piece_cancel)(void *owner, struct kit_rma_piece *piece);

    /*
     * The message for this receive will not come, or the peer is gone: the owner ends the piece
     * soon, by kit_rma_piece_done() with any status, perhaps inside the call. Also called for sends
     * when their peer is gone. piece_cancel was called before.
     */
    void (*piece_withdraw)(void *owner, struct kit_rma_piece *piece);

    /*
     * A put or get is complete and its local memory is not accessed any more; the transfer is
     * invalid afterwards. `cookie` is the request's. Called only inside of kit_rma_poll(),
     * kit_rma_mem_deregister() and kit_rma_region_leave(); may call kit_rma_start().
     */
    void (*transfer_done)(void *owner, void *cookie, int32_t status);

    /*
     * Reference and release a peer: the pointer stays valid while a transfer refers to it.
     * Optional, both or neither: without them it is valid until kit_rma_peer_failed().
     */
    void (*peer_hold)(void *owner, void *peer);
    void (*peer_release)(void *owner, void *peer);
};

/* Configuration; copied by kit_rma_open(). 0 selects the default where a comment names one. */
struct kit_rma_config {
    const struct kit_rma_ops *ops; /* valid as long as the object */
    void *owner;
    const char *plugin;          /* name, for the log; valid as long as the object */
    struct kit_regions *regions; /* the owner's table, valid as long as the object; NULL: its own */
    uint32_t control_size;       /* bytes of the largest record; default KIT_RMA_CONTROL_MIN */
    uint32_t inline_size;      /* most data bytes in a record; same at both sides; 0: not inline */
    uint32_t eager_size;       /* largest put for data_send, bytes; same at both sides; 0: none */
    uint32_t part_size;        /* bytes of a one-sided transfer at a time; default 4 MiB */
    uint32_t transfer_private; /* bytes of the owner's in an exposure and in a move */
    uint32_t piece_size;       /* bytes, at least 4096; same at both sides; default 256 KiB */
    uint32_t window;           /* pieces of one transfer in flight, at most 16; default 4 */
    uint32_t max_sends;        /* pieces being sent, of all transfers; default 64 */
    uint32_t max_receives;     /* receives posted, of all transfers that do not stall; default 64 */
    uint32_t first_tag;        /* tags of our receives: first_tag .. first_tag + tag_count - 1 */
    uint32_t tag_count;        /* 1024 to 65536; default 65536, also for a larger value */
    uint32_t peer_tag_low;     /* lowest tag that a peer may grant */
    uint32_t peer_tag_high;    /* highest tag that a peer may grant; 0: both are as for us */
    uint32_t piece_private;    /* bytes of the owner's in each piece */
    uint32_t timeout_ms; /* silence of an origin that ends its transfer at the target; 30000 */
};

/* ------------------------------------------------------------------------------------------------
 * Open and close
 */

/*
 * Makes the object, which kit_rma_close() frees. NA_PLUGIN_SUCCESS, NA_PLUGIN_INVALID_ARG for a
 * config out of range (logged), NA_PLUGIN_NOMEM, NA_PLUGIN_IO_ERROR if getrandom fails.
 */
int32_t kit_rma_open(const struct kit_rma_config *config, struct kit_rma **kit_rma_p);

/* The functions for data of an owner that seals its control records; as in kit_rma_ops. */
struct kit_rma_sealed {
    int32_t (*data_send)(void *owner, void *peer, const void *record, uint32_t record_size,
                         const struct kit_region *region, uint64_t offset, uint32_t size);
    void (*data_take)(void *owner, const struct kit_region *region, uint64_t offset,
                      const void *data, uint32_t size);
    uint32_t inline_size; /* in place of config's */
};

/*
 * From now on bytes move in control records only, up to `inline_size` in each, and are delivered to
 * kit_rma_control(): requests for another mover are refused, records passed to
 * kit_rma_control_data() are dropped. Called before the first transfer; a second call does nothing.
 */
void kit_rma_inline_only(struct kit_rma *rma, const struct kit_rma_sealed *sealed);

/*
 * From now on a peer's request is refused (NA_PLUGIN_PERMISSION) unless `may_reach` returns true
 * for the peer and the region that kit_region_find() found. Called before the first transfer.
 */
void kit_rma_set_may_reach(struct kit_rma *rma,
                           bool (*may_reach)(void *owner, void *peer, struct kit_region *region));

/*
 * Frees the object and all memory handles. Of ops only conceal and peer_release are called. The
 * owner has stopped its network before, so that nothing refers to a piece. NULL is allowed.
 */
void kit_rma_close(struct kit_rma *rma);

/* ------------------------------------------------------------------------------------------------
 * Memory: for the functions of the same names in the plugin's table. An owner whose memory handles
 * have more members than a region sets config.regions, has functions of its own and calls only
 * kit_rma_region_leave() and kit_rma_region_peer().
 */

/*
 * Describes memory; kit_rma_mem_destroy() frees *memory_p. NA_PLUGIN_SUCCESS, NA_PLUGIN_NOMEM, or
 * NA_PLUGIN_INVALID_ARG if base + length exceeds the address space.
 */
int32_t kit_rma_mem_create(struct kit_rma *rma, void *base, uint64_t length, uint32_t flags,
                           struct kit_region **memory_p);

/* Frees a created or deserialized handle, which kit_rma_mem_deregister() reported to be unused. */
void kit_rma_mem_destroy(struct kit_rma *rma, struct kit_region *memory);

/* Makes the memory accessible to peers. Host memory only (NA_PLUGIN_OPNOTSUPPORTED). Idempotent. */
int32_t kit_rma_mem_register(struct kit_rma *rma, struct kit_region *memory, uint32_t mem_type);

/*
 * Refuses peers from now on; their transfers of this memory end with an error. True: the memory is
 * not accessed any more. False: the network still accesses it for such a transfer, or for one of
 * ours that was abandoned (kit_rma_abandon()); the owner polls and calls this again until it
 * returns true.
 */
bool kit_rma_mem_deregister(struct kit_rma *rma, struct kit_region *memory);

/*
 * Returns as kit_rma_mem_deregister(), for a region that kit_region_deregister() has removed from
 * the owner's table.
 */
bool kit_rma_region_leave(struct kit_rma *rma, const struct kit_region *region);

/*
 * While kit_rma_region_leave() is false: returns a peer, valid as long as its transfer, whose
 * transfer still accesses the region, or NULL. The owner may abort the connection to that peer and
 * call kit_rma_peer_failed() to end the transfer.
 */
void *kit_rma_region_peer(const struct kit_rma *rma, const struct kit_region *region);

/*
 * Writes the serialized handle, KIT_REGION_PACKED bytes. NA_PLUGIN_OVERFLOW if `size` is less,
 * NA_PLUGIN_INVALID_ARG if the memory is not registered.
 */
int32_t kit_rma_mem_serialize(struct kit_rma *rma, const struct kit_region *memory, void *buf,
                              uint64_t size);

/*
 * Makes a handle, which kit_rma_mem_destroy() frees, from a serialized one. NA_PLUGIN_SUCCESS,
 * NA_PLUGIN_NOMEM, or NA_PLUGIN_PROTOCOL_ERROR if the bytes are not a serialized handle.
 */
int32_t kit_rma_mem_deserialize(struct kit_rma *rma, const void *buf, uint64_t size,
                                struct kit_region **memory_p);

/* ------------------------------------------------------------------------------------------------
 * Put and get at the origin
 */

/* Arguments of one put or get. The core has checked ranges and flags of the two handles. */
struct kit_rma_request {
    void *peer; /* owner of the remote memory; ignored if `remote` is memory of this object */
    struct kit_region *local;
    uint64_t local_offset;
    struct kit_region *remote;
    uint64_t remote_offset;
    uint64_t length; /* not 0 */
    uint32_t is_put;
    void *cookie; /* for transfer_done */
};

/*
 * Starts a put or get. Success: ops.transfer_done follows, and *transfer_p is valid until then; if
 * *transfer_p is NULL the transfer is complete already, as with a handle that this object
 * serialized. An error: the transfer failed, and transfer_done is not called.
 */
int32_t kit_rma_start(struct kit_rma *rma, const struct kit_rma_request *request,
                      struct kit_rma_transfer **transfer_p);

/*
 * Ends a transfer early with `status`. True: the local memory is not accessed any more, the
 * transfer is invalid and transfer_done is not called for it; the next poll tells the target.
 * False: transfer_done is called with `status` as soon as the network stops using the memory.
 * `is_peer_gone`: the target cannot be told.
 */
bool kit_rma_abandon(struct kit_rma *rma, struct kit_rma_transfer *transfer, int32_t status,
                     bool is_peer_gone);

/* ------------------------------------------------------------------------------------------------
 * Events that the owner reports
 */

/* A control record arrived. It is not trusted; an invalid one is dropped and counted. */
void kit_rma_control(struct kit_rma *rma, void *peer, const void *data, uint64_t size);

/* A record and its data, sent by ops.data_send, arrived. Neither is trusted. */
void kit_rma_control_data(struct kit_rma *rma, void *peer, const void *record, uint64_t record_size,
                          const void *data, uint64_t size);

/*
 * A piece is complete and invalid afterwards. `size` is the size of the received message; the
 * transfer fails if it differs from the piece's.
 */
void kit_rma_piece_done(struct kit_rma *rma, struct kit_rma_piece *piece, int32_t status,
                        uint64_t size);

/* After piece_cancel returned false: the network stopped using the memory; the piece goes on. */
void kit_rma_piece_released(struct kit_rma *rma, struct kit_rma_piece *piece);

/*
 * A one-sided move is complete and invalid afterwards; the network does not use its memory any
 * more. An error: it is unknown which bytes were moved.
 */
void kit_rma_move_done(struct kit_rma *rma, struct kit_rma_move *move, int32_t status);

/*
 * The peer failed or was restarted; with NULL, all peers became unreachable. Its transfers end, and
 * the next poll reports ours to it with `status`. Records that arrive later under the same pointer
 * belong to a new process.
 */
void kit_rma_peer_failed(struct kit_rma *rma, void *peer, int32_t status);

/*
 * Acts on the reported events, calls transfer_done, retries operations for which the owner had no
 * resources, and checks time-outs. The owner calls it in each poll, after it reported the events of
 * the network; an idle call costs a few comparisons. `now_ns` is kit_host->clock_ns(), or 0 to skip
 * time-outs; passing the clock every few hundred milliseconds is enough.
 */
void kit_rma_poll(struct kit_rma *rma, uint64_t now_ns);

/* True if kit_rma_poll() has work to do, so that a thread must not sleep for long. */
bool kit_rma_has_work(const struct kit_rma *rma);

/* True if transfers, of ours or of peers, are in flight or closing. */
bool kit_rma_is_active(const struct kit_rma *rma);

/* Counters for tests and for the log. */
struct kit_rma_counters {
    uint64_t records_bad;           /* invalid control records */
    uint64_t records_stale;         /* records for a transfer that has ended */
    uint64_t refused;               /* requests with a bad handle, range or flag */
    uint64_t pieces_late;           /* pieces dropped because their transfer had ended */
    uint64_t timeouts;              /* transfers abandoned because their origin was silent */
    uint32_t transfers;             /* transfers of ours in flight */
    uint32_t targets;               /* transfers of peers in flight */
    uint32_t closing;               /* ended transfers with a record or piece left */
    uint32_t sends;                 /* pieces being sent */
    uint32_t receives;              /* receives posted for pieces */
    uint64_t moved[KIT_RMA_MOVERS]; /* transfers of ours started, by mover */
};

/* Copies the counters. */
void kit_rma_counters_get(const struct kit_rma *rma, struct kit_rma_counters *counters);

#ifdef __cplusplus
}
#endif

#endif /* KIT_RMA_H */
