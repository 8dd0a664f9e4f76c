/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HELLO and HELLO_ACK, by which an origin and a target make a session: the payload of a request and
 * of its response with the flag HG_CORE_HEADER_HELLO. They are an exchange of kit_auth.h. What each
 * side says beside its share is part of the keys, and so is which of the two it was.
 */
#ifndef HG_HELLO_H
#define HG_HELLO_H

#include "kit_auth.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HG_HELLO_KEYS     2u /* auth_key, and the one that is accepted besides */
#define HG_HELLO_INSTANCE 16u

struct hg_hello {
    uint8_t instance[HG_HELLO_INSTANCE]; /* a random number of the origin's class */
    uint8_t share[KIT_AUTH_SHARE];
};

struct hg_hello_ack {
    uint8_t instance[HG_HELLO_INSTANCE]; /* of the target's */
    uint64_t session;                    /* even; of the second key: one more */
    /* For each key of the target, as many as the message has. The code proves it. */
    struct hg_hello_proof {
        uint8_t share[KIT_AUTH_SHARE];
        uint8_t code[KIT_AUTH_CODE];
    } proof[HG_HELLO_KEYS];
};

/*
 * The target's answer to a HELLO, with a proof and keys for each secret that is not NULL: returns
 * how many, or 0 if there is no share in it.
 */
uint32_t hg_hello_answer(struct kit_auth_secret *const secrets[HG_HELLO_KEYS],
                         const struct hg_hello *hello, struct hg_hello_ack *ack,
                         struct kit_auth_keys keys[HG_HELLO_KEYS]);

/* The number of the proof that is of the origin's key, with the keys, or `proofs` if none is. */
uint32_t hg_hello_end(const struct kit_auth_exchange *exchange, const struct hg_hello *hello,
                      const struct hg_hello_ack *ack, uint32_t proofs, struct kit_auth_keys *keys);

#endif /* HG_HELLO_H */
