/* SPDX-License-Identifier: BSD-3-Clause */
#include "hg/hello.h"

#include <string.h>

#define HELLO_LABEL "amalgam hg HELLO 1"
#define ACK_LABEL   "amalgam hg HELLO_ACK 1"

static void digests_make(const struct hg_hello *hello, const struct hg_hello_ack *ack,
                         uint8_t hello_digest[KIT_AUTH_KEY], uint8_t ack_digest[KIT_AUTH_KEY]);

_Static_assert(sizeof(struct hg_hello) == 48, "wire format");
_Static_assert(HG_HELLO_ACK_FIXED == 24 && sizeof(struct hg_hello_ack) == 120, "wire format");

uint32_t hg_hello_answer(struct kit_auth_secret *const secrets[HG_HELLO_KEYS],
                         const struct hg_hello *hello, struct hg_hello_ack *ack,
                         struct kit_auth_keys keys[HG_HELLO_KEYS])
{
    uint8_t hello_digest[KIT_AUTH_KEY], ack_digest[KIT_AUTH_KEY];
    struct kit_auth_exchange exchange;
    uint32_t count = 0;

    digests_make(hello, ack, hello_digest, ack_digest);
    for (uint32_t i = 0; i < HG_HELLO_KEYS && secrets[i] != NULL; i++, count++) {
        struct hg_hello_proof *proof = &ack->proof[i];

        kit_auth_exchange_begin(secrets[i], &exchange);
        if (!kit_auth_exchange_end(&exchange, hello->share, ack_digest, hello_digest, &keys[i]))
            break;
        memcpy(proof->share, exchange.share, sizeof(proof->share));
        kit_auth_code(proof->code, keys[i].confirm_own, KIT_AUTH_KEY, ack, HG_HELLO_ACK_FIXED);
    }
    kit_auth_wipe(&exchange, sizeof(exchange));
    return count;
}

uint32_t hg_hello_end(const struct kit_auth_exchange *exchange, const struct hg_hello *hello,
                      const struct hg_hello_ack *ack, uint32_t proofs, struct kit_auth_keys *keys)
{
    uint8_t hello_digest[KIT_AUTH_KEY], ack_digest[KIT_AUTH_KEY], code[KIT_AUTH_CODE];
    uint32_t i;

    digests_make(hello, ack, hello_digest, ack_digest);
    for (i = 0; i < proofs; i++) {
        if (!kit_auth_exchange_end(exchange, ack->proof[i].share, hello_digest, ack_digest, keys))
            continue;
        kit_auth_code(code, keys->confirm_their, KIT_AUTH_KEY, ack, HG_HELLO_ACK_FIXED);
        if (kit_auth_code_is_equal(code, ack->proof[i].code))
            break;
    }
    return i;
}

static void digests_make(const struct hg_hello *hello, const struct hg_hello_ack *ack,
                         uint8_t hello_digest[KIT_AUTH_KEY], uint8_t ack_digest[KIT_AUTH_KEY])
{
    kit_auth_digest(hello_digest, HELLO_LABEL, sizeof(HELLO_LABEL), hello->instance,
                    sizeof(hello->instance));
    kit_auth_digest(ack_digest, ACK_LABEL, sizeof(ACK_LABEL), ack, HG_HELLO_ACK_FIXED);
}
