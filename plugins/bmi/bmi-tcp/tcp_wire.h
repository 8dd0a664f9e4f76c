/* SPDX-License-Identifier: BSD-3-Clause */
/* The header before each message on the wire: 25 bytes, numbers little-endian. */

#ifndef BMI_TCP_WIRE_H
#define BMI_TCP_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define WIRE_MAGIC       51912u
#define WIRE_HEADER_SIZE 25u

/* Modes */
#define WIRE_UNEXPECTED     2u
#define WIRE_EAGER          4u /* at most WIRE_EAGER_MAX bytes; buffered if no receive is posted */
#define WIRE_RENDEZVOUS     8u /* stays in the connection until a receive is posted */

#define WIRE_EAGER_MAX      16384u
#define WIRE_RENDEZVOUS_MAX 16777216u

/* The seed of the hash of a listener's name. */
#define WIRE_HASH_SEED 3334u

struct wire_header {
    uint32_t mode;
    int32_t tag;
    uint32_t source; /* hash of the name at which the sender listens; 0: it does not */
    uint64_t size;   /* of the payload that follows */
    uint8_t class;   /* of an unexpected message */
};

static inline void wire_encode(uint8_t bytes[WIRE_HEADER_SIZE], const struct wire_header *header)
{
    uint32_t magic = htole32(WIRE_MAGIC), mode = htole32(header->mode);
    uint32_t tag = htole32((uint32_t) header->tag), source = htole32(header->source);
    uint64_t size = htole64(header->size);

    memcpy(bytes, &magic, 4);
    memcpy(bytes + 4, &mode, 4);
    memcpy(bytes + 8, &tag, 4);
    memcpy(bytes + 12, &source, 4);
    memcpy(bytes + 16, &size, 8);
    bytes[24] = header->class;
}

/* Returns the magic number; nothing is checked. */
static inline uint32_t wire_decode(const uint8_t bytes[WIRE_HEADER_SIZE],
                                   struct wire_header *header)
{
    uint32_t magic, mode, tag, source;
    uint64_t size;

    memcpy(&magic, bytes, 4);
    memcpy(&mode, bytes + 4, 4);
    memcpy(&tag, bytes + 8, 4);
    memcpy(&source, bytes + 12, 4);
    memcpy(&size, bytes + 16, 8);
    header->mode = le32toh(mode);
    header->tag = (int32_t) le32toh(tag);
    header->source = le32toh(source);
    header->size = le64toh(size);
    header->class = bytes[24];
    return le32toh(magic);
}

#endif /* BMI_TCP_WIRE_H */
