/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of an RPC message's header that belongs to its payload. It is there only in messages
 * with checksums, see mercury_core_header.h.
 */
#ifndef MERCURY_HEADER_H
#define MERCURY_HEADER_H

#include "mercury_core_types.h"

/* Checksum of a payload. */
HG_PACKED(struct hg_header_hash {
    uint32_t payload; /* 32 bits */
});

/* Header of an input. */
HG_PACKED(struct hg_header_input { struct hg_header_hash hash; });

/* Header of an output. */
HG_PACKED(struct hg_header_output { struct hg_header_hash hash; });

/* Either header. */
struct hg_header {
    union {
        struct hg_header_input input;
        struct hg_header_output output;
    } msg;
    hg_op_t op; /* Which one */
};

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Size of the payload's header when checksums are on.
 *
 * \param op [IN]       HG_INPUT or HG_OUTPUT
 *
 * \return size in bytes, 0 for HG_UNDEF
 *
 * Any thread. \since 1.0
 */
static HG_INLINE size_t hg_header_get_size(hg_op_t op)
{
    if (op == HG_INPUT)
        return sizeof(struct hg_header_input);
    return op == HG_OUTPUT ? sizeof(struct hg_header_output) : 0;
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_HEADER_H */
