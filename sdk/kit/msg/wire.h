/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Wire format of a frame: a header, then records that begin at multiples of 8 bytes. All numbers
 * are little-endian. A frame that introduces its sender begins with a HELLO. A single message
 * between ready peers has a compact header instead, so that a short message fits into the same
 * cache line as the fabric's own header.
 *
 * The token identifies the sender of a frame, and without a key nothing else does, because not all
 * fabrics tell the sender. So the high half of a token and its mask are 64 random bits. With a key
 * (auth_key) each frame, except those that introduce two peers, ends with a tag over the whole
 * frame: WIRE_IS_SEALED or compact.
 */

#ifndef MSG_WIRE_H
#define MSG_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define WIRE_MAGIC       0x4661u
#define WIRE_VERSION     8u
#define WIRE_COMPACT     0xc7u /* first byte of a compact frame; changes with the version */
#define WIRE_ALIGN       8u
#define WIRE_CONTROL_MAX KIT_CONTROL_MAX

/* Flags of a frame */
#define WIRE_HAS_HELLO 0x01u /* the first record is a HELLO; the token may be stale or 0 */
#define WIRE_IS_SEALED 0x02u /* the frame ends with a tag, which its size includes */

/* Kinds of records. Unknown ones are skipped. */
#define WIRE_UNEXPECTED 1u
#define WIRE_EXPECTED   2u
#define WIRE_CONTROL    3u /* tag is the plugin's type */
#define WIRE_HELLO      4u
#define WIRE_HELLO_ACK  5u /* answer to a HELLO, in the same format */
#define WIRE_BYE        6u /* the sender closes */
#define WIRE_REFUSAL    7u /* a HELLO is refused; tag is a kit_refusal_reason */
#define WIRE_PART       8u /* part of a message longer than a frame: a wire_part, then bytes */
#define WIRE_FLOW       9u /* flow control of unexpected messages; tag is a msg_flow */

struct wire_header {
    uint16_t magic;
    uint8_t version;
    uint8_t flags;
    uint32_t size;        /* of the whole frame */
    uint64_t token;       /* under which the receiver knows the sender */
    uint32_t incarnation; /* of the receiver, low half */
    uint32_t sequence;    /* number of the frame under this token, from 1, plus the token's mask */
};

/* The message follows, up to the end of the frame. */
struct wire_compact {
    uint8_t magic; /* WIRE_COMPACT */
    uint8_t kind;  /* WIRE_UNEXPECTED or WIRE_EXPECTED */
    uint8_t source_id;
    uint8_t dest_id;
    uint32_t tag;
    uint32_t index;    /* low half of the token */
    uint32_t check;    /* wire_compact_check() of the token's high half */
    uint32_t sequence; /* as in struct wire_header */
};

struct wire_record {
    uint16_t kind;
    uint16_t source_id; /* contexts */
    uint16_t dest_id;
    uint16_t reserved;
    uint32_t size; /* of the content that follows */
    uint32_t tag;
};

/* The parts of a message come in order, without a part of another message of that queue between. */
struct wire_part {
    uint32_t kind;   /* WIRE_UNEXPECTED or WIRE_EXPECTED; ids and tag are in the record */
    uint32_t total;  /* bytes of the message */
    uint32_t offset; /* of this part; 0 begins a message, even if the previous one is incomplete */
    uint32_t queue;  /* the sender has a queue for each name by which it knows the receiver */
};

_Static_assert(sizeof(struct wire_header) == 24, "layout of the wire");
_Static_assert(sizeof(struct wire_compact) == 20, "layout of the wire");
_Static_assert(sizeof(struct wire_record) == 16, "layout of the wire");
_Static_assert(sizeof(struct wire_part) == 16, "layout of the wire");

/*
 * Check value of a frame of `size` bytes for the receiver of that incarnation. It differs if the
 * token is stale, the frame is for another process, or the frame was truncated.
 */
static inline uint32_t wire_compact_check(uint32_t nonce, uint32_t incarnation, uint64_t size)
{
    return nonce ^ incarnation ^ (uint32_t) size;
}

/* True if the header is of this version, and of a frame of `size` bytes. */
static inline bool wire_header_is_good(const struct wire_header *header, uint64_t size)
{
    return le16toh(header->magic) == WIRE_MAGIC && header->version == WIRE_VERSION &&
           le32toh(header->size) == size;
}

/* Reads a number of a received frame, which need not be aligned. */
static inline uint32_t wire_number(const uint8_t *place)
{
    uint32_t number;

    memcpy(&number, place, sizeof(number));
    return le32toh(number);
}

/* Bytes that a record with `size` bytes of content takes. */
static inline uint64_t wire_record_size(uint64_t size)
{
    return sizeof(struct wire_record) + ((size + WIRE_ALIGN - 1) & ~(uint64_t) (WIRE_ALIGN - 1));
}

#endif /* MSG_WIRE_H */
