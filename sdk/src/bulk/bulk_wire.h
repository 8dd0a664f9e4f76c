/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Layout of a serialized descriptor. All numbers are little-endian; nothing is aligned.
 *
 *     offset  bytes  field
 *          0      4  magic
 *          4      1  version
 *          5      1  flags: access in the two low bits, HG_BULK_WIRE_*
 *          6      1  context id, of a bound descriptor
 *          7      1  memory type
 *          8      4  size of the serialized descriptor
 *         12      4  checksum of the serialized descriptor, without these four bytes
 *         16      8  size of the described memory
 *         24      4  number of segments at the origin
 *         28      4  size of the address
 *         32     16  the origin's random name for the descriptor, or 0; only the origin can use it
 *         48      8  device
 *         56      4  number of regions on the main path
 *         60      4  number of regions on the shared-memory path
 *         64         address; then the data if eager, otherwise the regions: 8 bytes length,
 *                    4 bytes size of the transport's memory handle, and that handle
 */
#ifndef HG_BULK_WIRE_H
#define HG_BULK_WIRE_H

#include "mercury_types.h"

#define HG_BULK_WIRE_MAGIC       0x4b424741u /* "AGBK" */
#define HG_BULK_WIRE_VERSION     1u

#define HG_BULK_WIRE_ACCESS      0x03u
#define HG_BULK_WIRE_BOUND       0x04u /* an address is present */
#define HG_BULK_WIRE_ADDR_STRING 0x08u /* the address is a string */
#define HG_BULK_WIRE_EAGER       0x10u /* the data are embedded */
#define HG_BULK_WIRE_FLAGS       0x1fu

#define HG_BULK_WIRE_HEADER_SIZE 64u
#define HG_BULK_WIRE_REGION_SIZE 12u
#define HG_BULK_WIRE_CHECKSUM_AT 12u

/* The random name of a descriptor, unique to the process that made it; 0: none. */
struct hg_bulk_name {
    uint64_t half[2];
};

/* The fixed part, decoded. */
struct hg_bulk_wire {
    uint32_t magic;
    uint8_t version;
    uint8_t flags;
    uint8_t context_id;
    uint8_t mem_type;
    uint32_t total;
    uint32_t checksum;
    uint64_t size;
    uint32_t segment_count;
    uint32_t addr_size;
    struct hg_bulk_name name;
    uint64_t device;
    uint32_t region_count[2];
};

static inline void hg_bulk_wire_put(uint8_t **pos, uint64_t value, unsigned int bytes)
{
    for (unsigned int i = 0; i < bytes; i++)
        (*pos)[i] = (uint8_t) (value >> (8 * i));
    *pos += bytes;
}

static inline uint64_t hg_bulk_wire_get(const uint8_t **pos, unsigned int bytes)
{
    uint64_t value = 0;

    for (unsigned int i = 0; i < bytes; i++)
        value |= (uint64_t) (*pos)[i] << (8 * i);
    *pos += bytes;
    return value;
}

#endif /* HG_BULK_WIRE_H */
