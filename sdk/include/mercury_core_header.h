/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header at the beginning of every RPC message on the wire, for tools that analyse traffic.
 *
 * All numbers are little-endian. A message is
 *
 *     0                   16                24
 *     | request/response  | [hash header]   | [seal] | payload ...
 *
 * with the hash header present only if HG_CORE_HEADER_HAS_HASH is set in the flags, and the seal,
 * 32 bytes, only if HG_CORE_HEADER_HAS_SEAL is, as in all messages of a session: between classes
 * with a key (auth_key), over a transport that does not prove it. With HG_CORE_HEADER_HELLO the
 * payload is the library's own, and serves to set up a session. If HG_CORE_HEADER_MORE_DATA is set,
 * the payload is not the encoded data but a description of where to fetch them.
 */
#ifndef MERCURY_CORE_HEADER_H
#define MERCURY_CORE_HEADER_H

#include "mercury_core_types.h"

/* First two bytes of a request and of a response. */
#define HG_CORE_REQUEST_MAGIC  0x5148 /* "HQ" */
#define HG_CORE_RESPONSE_MAGIC 0x5248 /* "HR" */
#define HG_CORE_ACK_MAGIC      0x4148 /* "HA": a more-data release, with the layout of a response */

/* Low byte common to all of them. */
#define HG_CORE_IDENTIFIER 0x48

/* Version of this format; a message of another one is refused. */
#define HG_CORE_PROTOCOL_VERSION 0x01

/* Version of messages with HG_CORE_HEADER_HAS_SEAL or HG_CORE_HEADER_HELLO, since 1.1. */
#define HG_CORE_SEALED_VERSION 0x02

/* Flags of a message. */
#define HG_CORE_HEADER_MORE_DATA        (1 << 0) /* The payload has to be fetched */
#define HG_CORE_HEADER_NO_RESPONSE      (1 << 1) /* The origin does not wait for a response */
#define HG_CORE_HEADER_PORTABLE         (1 << 2) /* The payload is in the portable encoding */
#define HG_CORE_HEADER_HELLO            (1 << 4) /* Part of the set-up of a session, since 1.1 */
#define HG_CORE_HEADER_HAS_SEAL         (1 << 5) /* A seal follows, since 1.1 */
#define HG_CORE_HEADER_HAS_PAYLOAD_HASH (1 << 6) /* hash.payload is valid */
#define HG_CORE_HEADER_HAS_HASH         (1 << 7) /* A hash header follows */
#define HG_CORE_HAS_CHECKSUMS           HG_CORE_HEADER_HAS_HASH

/* A request, 16 bytes. */
HG_PACKED(struct hg_core_header_request {
    uint16_t hg;         /* HG_CORE_REQUEST_MAGIC */
    uint8_t protocol;    /* HG_CORE_PROTOCOL_VERSION */
    uint8_t flags;       /* HG_CORE_HEADER_ flags */
    uint16_t cookie;     /* Low bits of the cookie, which the origin chooses and the response
                          * repeats */
    uint8_t origin;      /* Context id of the origin */
    uint8_t cookie_high; /* Bits 16 to 23 of the cookie */
    uint64_t id;         /* RPC id */
});

/* A response, 16 bytes. */
HG_PACKED(struct hg_core_header_response {
    uint16_t hg;         /* HG_CORE_RESPONSE_MAGIC or HG_CORE_ACK_MAGIC */
    uint8_t protocol;    /* HG_CORE_PROTOCOL_VERSION */
    uint8_t flags;       /* HG_CORE_HEADER_ flags */
    uint16_t cookie;     /* The request's */
    uint8_t ret_code;    /* hg_return_t of the RPC */
    uint8_t cookie_high; /* The request's */
    uint64_t id;         /* RPC id of the request */
});

/* Checksums, 8 bytes; the low half of XXH3 of the bytes they protect. */
HG_PACKED(struct hg_core_header_hash {
    uint32_t header;  /* Of the 16 bytes before, followed by the other checksum */
    uint32_t payload; /* Of the payload, or 0 if that is not protected */
});

/*
 * The seal of a message, 32 bytes. The tag is ChaCha20-Poly1305 of all of the message, with zeros
 * where the tag is, under the session's key of that direction; its nonce is the number, followed by
 * NA's tag for a request and by 0 for a response. Since 1.1.
 */
HG_PACKED(struct hg_core_header_seal {
    uint64_t
        reference;   /* Of a request: the id of the session. Of a response: the request's number */
    uint64_t number; /* Of this message, unique in its session and direction */
    uint8_t tag[16];
});

/* Either header. */
struct hg_core_header {
    union {
        struct hg_core_header_request request;
        struct hg_core_header_response response;
    } msg;
    struct hg_core_header_hash hash;
};

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Size of a request's header without the optional hash header.
 *
 * \return 16, in bytes
 *
 * Any thread. \since 1.0
 */
static HG_INLINE size_t hg_core_header_request_get_size(void)
{
    return sizeof(struct hg_core_header_request);
}

/**
 * Size of a response's header without the optional hash header.
 *
 * \return 16, in bytes
 *
 * Any thread. \since 1.0
 */
static HG_INLINE size_t hg_core_header_response_get_size(void)
{
    return sizeof(struct hg_core_header_response);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_CORE_HEADER_H */
