/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What origins and targets say to each other about puts and gets that the target carries out over a
 * connection. All numbers are little-endian.
 */

#ifndef OFI_CARRY_H
#define OFI_CARRY_H

#include "kit_base.h"

#include <stdint.h>

/* What travels in the records themselves. */
#define OFI_CARRY_INLINE 384u

/* Types of control records. */
enum ofi_carry_record {
    OFI_CARRY_REQUEST = 16, /* the bytes of an inline put follow */
    OFI_CARRY_ANSWER        /* the bytes of an inline get follow */
};

/* One piece. `length` says whether it is inline: then the fields behind `is_put` mean nothing. */
struct ofi_carry_request {
    uint64_t id;        /* the origin's; not to be guessed, not 0 */
    uint64_t region;    /* the target's */
    struct kit_key key; /* as it lies in its owner's memory */
    uint64_t offset;
    uint64_t length;
    uint32_t is_put;
    uint32_t reserved;
    uint64_t memory_key; /* the origin's, where the target reads or writes */
    uint64_t memory_address;
    uint64_t mark_key; /* where a get writes its id behind the data */
    uint64_t mark_address;
};

struct ofi_carry_answer {
    uint64_t id;
    int32_t status;
    uint32_t reserved;
};

_Static_assert(sizeof(struct ofi_carry_request) == 88, "layout of the wire");
_Static_assert(sizeof(struct ofi_carry_answer) == 16, "layout of the wire");

#endif /* OFI_CARRY_H */
