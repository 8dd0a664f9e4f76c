/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Authentication of the peer on a channel, before UCX sees anything that it sent. It is the
 * exchange of kit_auth.h. The listener's challenge has a share for each of its keys. The caller's
 * HELLO has one share and, for each share of the challenge, a code that proves the caller's key.
 * The listener's HELLO has a code that proves its key, at the index of the share that matched. Each
 * code covers its whole message, under keys derived from the challenge and the caller's HELLO. A
 * caller uses one of its keys, so a connection tests one guess against each of the listener's keys;
 * if it is refused, the caller connects again with its second key.
 */

#include "ucx.h"

#include <endian.h>
#include <string.h>

#define AUTH_MAGIC   0x43435855u
#define AUTH_HAS_KEY 0x01u
#define AUTH_CODES   (KIT_SECRETS * KIT_AUTH_CODE)

/* The listener sends it first. Little-endian. */
struct auth_challenge {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint8_t share[KIT_SECRETS][KIT_AUTH_SHARE]; /* zeroes without a key */
};

_Static_assert(sizeof(struct auth_challenge) == UCX_CHALLENGE, "layout of the wire");

static const struct kit_auth_secret *secret_of(const struct na_plugin_class *na_class,
                                               uint32_t index);
static uint32_t keys_make(struct ucx_channel *channel, const uint8_t *hello, uint32_t size);
static bool codes_check(struct ucx_channel *channel, uint8_t *data, uint32_t size);
static bool share_is_given(const struct ucx_channel *channel, uint32_t index);
static void code_make(uint8_t code[KIT_AUTH_CODE], const uint8_t key[KIT_AUTH_KEY], uint8_t *data,
                      uint32_t size);

int32_t ucx_auth_setup(struct na_plugin_class *na_class, const struct na_plugin_init *init)
{
    int32_t ret = kit_auth_secret_open("ucx", init->auth_key, &na_class->secret);

    if (ret == NA_PLUGIN_SUCCESS && na_class->secret != NULL)
        ret = kit_auth_secret_open("ucx", kit_init_auth_key_also(init), &na_class->secret_also);
    return ret;
}

void ucx_auth_challenge(struct ucx_channel *channel, uint8_t bytes[UCX_CHALLENGE])
{
    const struct na_plugin_class *na_class = channel->na_class;
    struct auth_challenge challenge = {
        .magic = htole32(AUTH_MAGIC),
        .version = htole16(UCX_HELLO_VERSION),
        .flags = htole16(na_class->secret != NULL ? AUTH_HAS_KEY : 0),
    };

    for (uint32_t i = 0; i < KIT_SECRETS && secret_of(na_class, i) != NULL; i++) {
        kit_auth_exchange_begin(secret_of(na_class, i), &channel->auth.exchange[i]);
        memcpy(challenge.share[i], channel->auth.exchange[i].share, KIT_AUTH_SHARE);
    }
    memcpy(bytes, &challenge, sizeof(challenge));
    memcpy(channel->auth.challenge, bytes, UCX_CHALLENGE);
}

/* Reads the listener's challenge. Returns NULL, or what is wrong with it. */
const char *ucx_auth_challenged(struct ucx_channel *channel, const uint8_t bytes[UCX_CHALLENGE])
{
    const struct na_plugin_class *na_class = channel->na_class;
    const struct kit_auth_secret *secret = secret_of(na_class, channel->link->has_second_key);
    struct auth_challenge challenge;
    bool has_key;

    memcpy(&challenge, bytes, sizeof(challenge));
    if (le32toh(challenge.magic) != AUTH_MAGIC)
        return "it does not speak this protocol";
    if (le16toh(challenge.version) != UCX_HELLO_VERSION)
        return "it speaks another version of this protocol: both sides must use the same release";
    has_key = (le16toh(challenge.flags) & AUTH_HAS_KEY) != 0;
    if (has_key != (secret != NULL)) {
        channel->failure = NA_PLUGIN_PERMISSION;
        return has_key ? "it asks for a key (auth_key), and we have none"
                       : "we have a key (auth_key), and it has none";
    }
    if (secret != NULL)
        kit_auth_exchange_begin(secret, &channel->auth.exchange[0]);
    memcpy(channel->auth.challenge, bytes, UCX_CHALLENGE);
    channel->is_challenged = true;
    return NULL;
}

/* Adds share and codes to this side's HELLO. False if the listener's challenge had no share. */
bool ucx_auth_sign(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    struct ucx_auth *auth = &channel->auth;
    uint8_t codes[KIT_SECRETS][KIT_AUTH_CODE] = {0};

    if (channel->na_class->secret == NULL)
        return true;
    if (channel->is_dialed) {
        memcpy(data + UCX_HELLO_SHARE, auth->exchange[0].share, KIT_AUTH_SHARE);
        auth->proven = keys_make(channel, data, size);
    }
    for (uint32_t i = 0; i < KIT_SECRETS; i++)
        if ((auth->proven >> i & 1) != 0)
            code_make(codes[i], auth->keys[i].confirm_own, data, size);
    memcpy(data + UCX_HELLO_CODES, codes, sizeof(codes));
    if (!channel->is_dialed)
        ucx_auth_wipe(channel);
    return !channel->is_dialed || auth->proven != 0;
}

/* Checks the codes in the peer's HELLO. Returns NULL if one is right, or neither side has a key. */
const char *ucx_auth_check(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    static const uint8_t none[AUTH_CODES];
    const bool has_key = channel->na_class->secret != NULL;
    bool is_good;

    if (has_key)
        is_good = codes_check(channel, data, size);
    else
        is_good = memcmp(data + UCX_HELLO_CODES, none, sizeof(none)) == 0;
    if (channel->is_dialed)
        ucx_auth_wipe(channel); /* no further message is checked */
    if (is_good)
        return NULL;
    channel->failure = NA_PLUGIN_PERMISSION;
    return "its key (auth_key) is not ours";
}

/* After a refusal: true if the peer is to be dialed again with the second key. */
bool ucx_auth_use_second_key(struct ucx_link *link)
{
    if (link->na_class->secret_also == NULL || link->has_second_key ||
        link->phase != UCX_LINK_DIALING || link->is_met)
        return false;
    link->has_second_key = true;
    link->has_claim = false;
    return true;
}

void ucx_auth_wipe(struct ucx_channel *channel)
{
    kit_auth_wipe(&channel->auth, sizeof(channel->auth));
}

static const struct kit_auth_secret *secret_of(const struct na_plugin_class *na_class,
                                               uint32_t index)
{
    return index == 0 ? na_class->secret : na_class->secret_also;
}

/*
 * Derives the keys for each share of the challenge, from the challenge and the caller's HELLO
 * without its codes. Returns a bit for each success, because a peer may send an invalid share.
 */
static uint32_t keys_make(struct ucx_channel *channel, const uint8_t *hello, uint32_t size)
{
    const size_t rest = UCX_HELLO_CODES + AUTH_CODES;
    const bool is_caller = channel->is_dialed;
    struct ucx_auth *auth = &channel->auth;
    uint8_t challenged[KIT_AUTH_KEY], said[KIT_AUTH_KEY];
    uint32_t made = 0;

    kit_auth_digest(challenged, auth->challenge, UCX_CHALLENGE, NULL, 0);
    kit_auth_digest(said, hello, UCX_HELLO_CODES, hello + rest, size - rest);
    for (uint32_t i = 0; i < KIT_SECRETS; i++) {
        const uint8_t *share = auth->challenge + UCX_CHALLENGE_SHARE + i * KIT_AUTH_SHARE;

        if (share_is_given(channel, i) &&
            kit_auth_exchange_end(
                &auth->exchange[is_caller ? 0 : i], is_caller ? share : hello + UCX_HELLO_SHARE,
                is_caller ? said : challenged, is_caller ? challenged : said, &auth->keys[i]))
            made |= 1u << i;
    }
    return made;
}

/* Whether one of the codes is right. Sets auth.proven to the bits of those that are. */
static bool codes_check(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    struct ucx_auth *auth = &channel->auth;
    const uint32_t made = channel->is_dialed ? auth->proven : keys_make(channel, data, size);
    uint8_t codes[KIT_SECRETS][KIT_AUTH_CODE], expected[KIT_AUTH_CODE];

    memcpy(codes, data + UCX_HELLO_CODES, sizeof(codes));
    auth->proven = 0;
    for (uint32_t i = 0; i < KIT_SECRETS; i++) {
        if ((made >> i & 1) == 0)
            continue;
        code_make(expected, auth->keys[i].confirm_their, data, size);
        if (kit_auth_code_is_equal(codes[i], expected))
            auth->proven |= 1u << i;
    }
    return auth->proven != 0;
}

static bool share_is_given(const struct ucx_channel *channel, uint32_t index)
{
    static const uint8_t none[KIT_AUTH_SHARE];

    return memcmp(channel->auth.challenge + UCX_CHALLENGE_SHARE + index * KIT_AUTH_SHARE, none,
                  sizeof(none)) != 0;
}

/* The code covers the message with zeroes in place of the codes. */
static void code_make(uint8_t code[KIT_AUTH_CODE], const uint8_t key[KIT_AUTH_KEY], uint8_t *data,
                      uint32_t size)
{
    memset(data + UCX_HELLO_CODES, 0, AUTH_CODES);
    kit_auth_code(code, key, KIT_AUTH_KEY, data, size);
}
