/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What travels in a frame: a header, then records that begin at multiples of 8 bytes. All numbers
 * are little-endian. A frame that introduces its sender begins with a HELLO. One message alone,
 * between two who know each other, travels behind a header of its own that is half as long: a
 * short one then fits into the cache line that the fabric begins with its own header.
 *
 * Whose a frame is its token says, and without a key nothing else does: fabrics do not tell. So the
 * high half of a token and its mask are random numbers: 64 bits. With a key (auth_key) each frame
 * but those that introduce two peers ends with a tag over all of it, WIRE_IS_SEALED or compact.
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
#define WIRE_HAS_HELLO 0x01u /* the first record is a HELLO; token may be stale or 0 */
#define WIRE_IS_SEALED 0x02u /* a tag ends it, and counts in its size */

/* Kinds of records. Unknown ones are skipped. */
#define WIRE_UNEXPECTED 1u
#define WIRE_EXPECTED   2u
#define WIRE_CONTROL    3u /* tag is the plugin's type */
#define WIRE_HELLO      4u
#define WIRE_HELLO_ACK  5u /* the answer, of the same form */
#define WIRE_BYE        6u /* the sender closes */
#define WIRE_REFUSAL    7u /* of a HELLO; tag is a kit_refusal_reason */
#define WIRE_PART       8u /* of a message longer than a frame: a wire_part, then its bytes */
#define WIRE_FLOW       9u /* of unexpected messages; tag is a msg_flow */

struct wire_header {
    uint16_t magic;
    uint8_t version;
    uint8_t flags;
    uint32_t size;        /* of the whole frame */
    uint64_t token;       /* under which the receiver knows the sender */
    uint32_t incarnation; /* of the receiver, its low half */
    uint32_t sequence;    /* counts the frames under this token from 1, from its mask on */
};

/* The message follows, up to the end of the frame. */
struct wire_compact {
    uint8_t magic; /* WIRE_COMPACT */
    uint8_t kind;  /* WIRE_UNEXPECTED or WIRE_EXPECTED */
    uint8_t source_id;
    uint8_t dest_id;
    uint32_t tag;
    uint32_t index;    /* low half of the token */
    uint32_t check;    /* wire_compact_check of its high half */
    uint32_t sequence; /* likewise */
};

struct wire_record {
    uint16_t kind;
    uint16_t source_id; /* contexts */
    uint16_t dest_id;
    uint16_t reserved;
    uint32_t size; /* of what follows */
    uint32_t tag;
};

/* The parts of a message come in order, and no part of another one of that queue between them. */
struct wire_part {
    uint32_t kind;   /* WIRE_UNEXPECTED or WIRE_EXPECTED; ids and tag are in the record */
    uint32_t total;  /* bytes of the message */
    uint32_t offset; /* of this part; 0 begins a message, whatever became of the one before */
    uint32_t queue; /* of the sender's, which has one for each name that it calls the receiver by */
};

_Static_assert(sizeof(struct wire_header) == 24, "layout of the wire");
_Static_assert(sizeof(struct wire_compact) == 20, "layout of the wire");
_Static_assert(sizeof(struct wire_record) == 16, "layout of the wire");
_Static_assert(sizeof(struct wire_part) == 16, "layout of the wire");

/*
 * Of a frame of `size` bytes for the receiver of that incarnation: a token that is out of date, a
 * receiver that is another one, and a frame that was cut all make another number of it.
 */
static inline uint32_t wire_compact_check(uint32_t nonce, uint32_t incarnation, uint64_t size)
{
    return nonce ^ incarnation ^ (uint32_t) size;
}

/* Whether it is of this version, and of a frame of `size` bytes. */
static inline bool wire_header_is_good(const struct wire_header *header, uint64_t size)
{
    return le16toh(header->magic) == WIRE_MAGIC && header->version == WIRE_VERSION &&
           le32toh(header->size) == size;
}

/* A number of a frame that was received: it lies anywhere. */
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
