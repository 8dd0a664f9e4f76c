/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HELLO and HELLO_ACK, by which an origin and a target make a session: the payloads of a request
 * and its response with the flag HG_CORE_HEADER_HELLO. They are a key exchange of kit_auth.h. The
 * keys also depend on the other fields of both messages, and on which side is the origin.
 */
#ifndef HG_HELLO_H
#define HG_HELLO_H

#include "kit_auth.h"

#include <stddef.h>
#include <stdint.h>

#define HG_HELLO_KEYS     2u /* auth_key and auth_key_also */
#define HG_HELLO_INSTANCE 16u

struct hg_hello {
    uint8_t instance[HG_HELLO_INSTANCE]; /* random number of the origin's class */
    uint8_t share[KIT_AUTH_SHARE];
};

struct hg_hello_ack {
    uint8_t instance[HG_HELLO_INSTANCE]; /* of the target's class */
    uint64_t session; /* id for the first key, an even number; for the second one it is +1 */
    /* For each key of the target; the message has one or two. `code` proves the key. */
    struct hg_hello_proof {
        uint8_t share[KIT_AUTH_SHARE];
        uint8_t code[KIT_AUTH_CODE];
    } proof[HG_HELLO_KEYS];
};

/* Bytes of a HELLO_ACK before its proofs. */
#define HG_HELLO_ACK_FIXED offsetof(struct hg_hello_ack, proof)

/*
 * Add a proof to a HELLO_ACK, and make the session's keys, for each secret that is not NULL.
 * Returns the number of proofs; 0: the share in the HELLO is invalid.
 */
uint32_t hg_hello_answer(struct kit_auth_secret *const secrets[HG_HELLO_KEYS],
                         const struct hg_hello *hello, struct hg_hello_ack *ack,
                         struct kit_auth_keys keys[HG_HELLO_KEYS]);

/* Returns the index of the proof for the origin's key, and the session's keys, or `proofs`. */
uint32_t hg_hello_end(const struct kit_auth_exchange *exchange, const struct hg_hello *hello,
                      const struct hg_hello_ack *ack, uint32_t proofs, struct kit_auth_keys *keys);

#endif /* HG_HELLO_H */
