/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory that two processes share: an endpoint's segment. docs/sm-layout.md explains it. */

#ifndef SM_LAYOUT_H
#define SM_LAYOUT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "kit_base.h"

#define SM_DIRECTORY        "/dev/shm/"
#define SM_PREFIX           "amalgam-sm."
#define SM_MAGIC            UINT64_C(0x4d53474c414d4101)
#define SM_LAYOUT_VERSION   8u

#define SM_NAME_MAX         63u  /* characters of an endpoint's name */
#define SM_MAX_CONTEXTS     128u /* contexts of one endpoint */
#define SM_CACHE_LINE       64u
#define SM_UNIT             65536u /* contexts are multiples of it apart: of any page size */

#define SM_RING_SLOTS       128u
#define SM_RING_SLOT        128u  /* bytes of a slot */
#define SM_RING_FIRST       4096u /* bytes reserved at first, of the slots and of the data each */
#define SM_INLINE_MAX       112u  /* largest payload stored in the slot itself */
#define SM_DATA_MIN         32768u
#define SM_DATA_MAX         131072u /* for peers with which transfers are copied */
#define SM_PART_MAX         8192u /* longer messages are sent in parts; a quarter of SM_DATA_MIN */
#define SM_MESSAGE_MAX      262144u /* largest message */
#define SM_MESSAGE_SPACE    4096u   /* largest message unless the init info asks for more */

#define SM_PEER_SLOTS       4096u /* senders that one context can be connected to */
#define SM_DOORBELL_WORDS   (SM_PEER_SLOTS / 64u)
#define SM_PEER_SLOTS_CHUNK 8u /* peer slots are reserved in steps of this many */

/* Header, context 0 and its first peer slots fit 4 KiB: an endpoint with few peers uses no more. */
#define SM_CONTEXT_OFFSET    512u
#define SM_PEER_SLOTS_OFFSET 1280u
#define SM_CONTEXT_STRIDE    (SM_UNIT + (uint64_t) SM_PEER_SLOTS * 256u)

#define SM_TABLE_PARTS       15u  /* parts of the table of registrations */
#define SM_TABLE_FIRST       512u /* entries of the first part; each further doubles the table */
#define SM_TABLE_ENTRIES     (SM_TABLE_FIRST << (SM_TABLE_PARTS - 1u)) /* 8,388,608 */
#define SM_TABLE_ABSENT      UINT64_MAX /* instead of an offset: the owner had no memory for it */

#define SM_WRITERS           256u       /* processes that can write by cross-memory attach */
#define SM_WRITER_KEYS       6u         /* threads of one process that can do so at the same time */
#define SM_WRITERS_OFFSET    1052672u   /* behind the peer slots of context 0 */
#define SM_WRITERS_ABSENT    UINT32_MAX /* instead of the number: the owner had no memory for it */

/* sm_segment_header.state */
#define SM_STATE_OPEN   1u
#define SM_STATE_CLOSED 2u

/* sm_segment_header.flags */
#define SM_ENDPOINT_FENCE 0x1u /* senders must fence between publishing and reading flags */

/* sm_context_area.flags */
#define SM_CONTEXT_ASLEEP 0x1u /* a sender sends a byte to the wake socket after publishing */
#define SM_CONTEXT_CLOSED 0x2u /* the owner reads nothing any more */
#define SM_CONTEXT_GONE   0x4u /* the context was destroyed and not created again */
#define SM_CONTEXT_SLEEP  0x8u /* while asleep, this and the higher bits number the sleep */

/* sm_peer_slot.status */
#define SM_RING_IDLE    0x1u /* not polled: the sender rings the doorbell after publishing */
#define SM_RING_REFUSED 0x2u /* the receiver does not read this ring any more */

/* State byte of sm_peer_slot.owner */
#define SM_SLOT_FREE    0u
#define SM_SLOT_CLAIMED 1u /* by a sender that is filling it in */
#define SM_SLOT_READY   2u
#define SM_SLOT_CLOSING 3u /* the sender will not write any more */

/* sm_ring_slot.kind */
#define SM_KIND_UNEXPECTED 1u
#define SM_KIND_EXPECTED   2u
#define SM_KIND_RECORD     3u /* copied transfers: a record of the kit's protocol (kit_rma.h) */
#define SM_KIND_DATA       4u /* a record of KIT_RMA_RECORD_SIZE bytes, then a piece of memory */
#define SM_KIND_PART       5u /* of a longer message: sm_part in the slot, bytes in the data area */

/* Flags of a SM_KIND_DATA slot */
#define SM_DATA_APART 0x1u /* the record is in the slot, the payload is the piece alone */

/*
 * The first bytes of a segment, and the whole content of the file that names it. The owner writes
 * `magic` last.
 */
struct sm_segment_header {
    _Atomic uint64_t magic;
    uint32_t version;
    uint32_t max_contexts;
    uint32_t uid;
    uint32_t pid;
    uint64_t pid_namespace;  /* inode number of /proc/self/ns/pid */
    uint64_t incarnation;    /* random */
    uint64_t cookie;         /* random; also stored at cookie_address in the owner's memory */
    uint64_t cookie_address; /* for the probe of cross-memory attach */
    uint32_t max_unexpected;
    uint32_t max_expected;
    uint32_t flags;
    _Atomic uint32_t state;
    uint64_t process;       /* kit_process_identity() of the owner */
    struct kit_key secret;  /* keys the digests of registrations and the names of wake sockets */
    uint64_t memory_device; /* of the memfd that is the segment */
    uint64_t memory_inode;
    uint32_t memory_fd; /* its descriptor in the owner's process */
    uint32_t reserved;
    _Atomic uint64_t
        registrations[SM_TABLE_PARTS]; /* offsets of the table's parts; 0: not made yet */
    _Atomic uint32_t writers;          /* size of the table of writers; 0: not made yet */
    _Atomic uint32_t writers_used;     /* entries from this index on were never claimed */
    _Atomic uint64_t pool_offset;      /* of the pool's region; 0: not made yet, and written last */
    uint64_t pool_base;                /* where the owner has mapped it */
    uint64_t pool_size;
};

/* A process that writes to the owner's memory by cross-memory attach. */
struct sm_writer {
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t owner; /* as in a peer slot */
    _Atomic uint64_t process;                       /* as in the header */
    _Atomic uint64_t keys[SM_WRITER_KEYS];          /* digest of memory being written to, or 0 */
};

/* One for each context. Each member that two processes write has a cache line of its own. */
struct sm_context_area {
    _Alignas(SM_CACHE_LINE) _Atomic uint32_t flags; /* SM_CONTEXT_* */
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t doorbell_summary;
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t doorbells[SM_DOORBELL_WORDS];
    _Alignas(SM_CACHE_LINE) _Atomic uint32_t slots_reserved; /* peer slots backed by memory */
};

/* One for each sender to a context, in the receiver's segment. */
struct sm_peer_slot {
    /* Written by the sender. owner: state (8 bits), pid (24 bits), PID namespace (32 bits). */
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t owner;
    uint64_t incarnation;
    uint64_t ring_offset; /* in the sender's segment */
    uint32_t ring_data;   /* bytes of the data area */
    uint32_t name_length;
    _Atomic uint32_t blocked; /* sender's contexts (id modulo 32) to wake when there is space */

    _Alignas(SM_CACHE_LINE) char name[SM_NAME_MAX + 1];

    /* Written by the receiver. head: slot (high 32 bits), data line (low 32 bits). */
    _Alignas(SM_CACHE_LINE) _Atomic uint64_t head;
    _Alignas(SM_CACHE_LINE) _Atomic uint32_t status; /* SM_RING_* */
    _Atomic uint32_t accepted;                       /* 1: the receiver has mapped the ring */
};

/* One message. Valid when `sequence` is the position of the slot plus 1. */
struct sm_ring_slot {
    _Atomic uint32_t sequence;
    uint32_t tag;
    uint16_t length;
    uint8_t kind;
    uint8_t context; /* of the sender */
    uint32_t flags;
    uint8_t payload[SM_INLINE_MAX];
};

/* The slot's payload for a part. Parts come in order, possibly with other messages in between. */
struct sm_part {
    uint32_t kind;   /* SM_KIND_UNEXPECTED or SM_KIND_EXPECTED */
    uint32_t total;  /* bytes of the message */
    uint32_t offset; /* of this part; 0 begins a message, even if the one before is incomplete */
};

_Static_assert(sizeof(struct sm_segment_header) == 272, "layout 8");
_Static_assert(sizeof(struct sm_context_area) == 11 * SM_CACHE_LINE, "layout 8");
_Static_assert(sizeof(struct sm_peer_slot) == 4 * SM_CACHE_LINE, "layout 8");
_Static_assert(offsetof(struct sm_peer_slot, name) == 64, "layout 8");
_Static_assert(offsetof(struct sm_peer_slot, head) == 128, "layout 8");
_Static_assert(offsetof(struct sm_peer_slot, status) == 192, "layout 8");
_Static_assert(sizeof(struct sm_ring_slot) == SM_RING_SLOT, "layout 8");
_Static_assert(offsetof(struct sm_ring_slot, payload) == 16, "layout 8");
_Static_assert(sizeof(struct sm_part) == 12, "layout 8");
_Static_assert(sizeof(struct sm_writer) == SM_CACHE_LINE, "layout 8");
_Static_assert(sizeof(struct sm_segment_header) <= SM_CONTEXT_OFFSET, "layout 8");
_Static_assert(SM_CONTEXT_OFFSET + sizeof(struct sm_context_area) <= SM_PEER_SLOTS_OFFSET,
               "layout 8");
_Static_assert(SM_PEER_SLOTS_OFFSET + SM_PEER_SLOTS * sizeof(struct sm_peer_slot) <=
                   SM_WRITERS_OFFSET,
               "layout 8");
_Static_assert(SM_WRITERS_OFFSET + SM_WRITERS * sizeof(struct sm_writer) <= SM_CONTEXT_STRIDE,
               "layout 8");

/* Offsets and addresses in a segment. */
static inline uint64_t sm_layout_context(uint32_t id)
{
    return SM_CONTEXT_OFFSET + id * SM_CONTEXT_STRIDE;
}

static inline struct sm_context_area *sm_context_area_of(struct sm_segment_header *header,
                                                         uint32_t id)
{
    return (struct sm_context_area *) (void *) ((uint8_t *) header + sm_layout_context(id));
}

static inline uint64_t sm_layout_peer_slots(uint32_t id)
{
    return SM_PEER_SLOTS_OFFSET + id * SM_CONTEXT_STRIDE;
}

static inline struct sm_peer_slot *sm_peer_slots_of(struct sm_segment_header *header, uint32_t id)
{
    return (struct sm_peer_slot *) (void *) ((uint8_t *) header + sm_layout_peer_slots(id));
}

static inline uint64_t sm_layout_base_size(uint32_t max_contexts)
{
    return max_contexts * SM_CONTEXT_STRIDE;
}

static inline uint64_t sm_layout_ring_size(uint32_t ring_data)
{
    return (uint64_t) SM_RING_SLOTS * SM_RING_SLOT + ring_data;
}

static inline uint64_t sm_owner_pack(uint32_t state, uint32_t pid, uint64_t pid_namespace)
{
    return ((uint64_t) state << 56) | ((uint64_t) (pid & 0xffffffu) << 32) |
           (pid_namespace & 0xffffffffu);
}

static inline uint32_t sm_owner_state(uint64_t owner)
{
    return (uint32_t) (owner >> 56);
}

static inline uint32_t sm_owner_pid(uint64_t owner)
{
    return (uint32_t) (owner >> 32) & 0xffffffu;
}

#endif /* SM_LAYOUT_H */
