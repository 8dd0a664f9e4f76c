/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the process at the other end of a socket has the same key, before anything that it sends
 * reaches UCX. It is the exchange of kit_auth.h: who is called begins with a share, the caller's
 * hello has another share and a code that proves its key, the hello that answers a code that
 * proves that of the called one. Each code is of all of its message, under keys in which the
 * challenge and the caller's hello went.
 */

#include "ucx.h"

#include <endian.h>
#include <string.h>

#define AUTH_MAGIC   0x43435855u
#define AUTH_HAS_KEY 0x01u

/* What the called one says first; little-endian. */
struct auth_challenge {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    uint8_t share[KIT_AUTH_SHARE]; /* 0 without a key */
};

_Static_assert(sizeof(struct auth_challenge) == UCX_CHALLENGE, "layout of the wire");

static bool keys_make(struct ucx_channel *channel, const uint8_t *hello, uint32_t size);
static void code_make(uint8_t code[KIT_AUTH_CODE], const uint8_t key[KIT_AUTH_KEY], uint8_t *data,
                      uint32_t size);

/* NA_PLUGIN_SUCCESS, or as kit_auth_secret_open(). */
int32_t ucx_auth_setup(struct na_plugin_class *na_class, const char *text)
{
    return kit_auth_secret_open("ucx", text, &na_class->secret);
}

/* For somebody who calls. */
void ucx_auth_challenge(struct ucx_channel *channel, uint8_t bytes[UCX_CHALLENGE])
{
    const struct kit_auth_secret *secret = channel->na_class->secret;
    struct auth_challenge challenge = {
        .magic = htole32(AUTH_MAGIC),
        .version = htole16(UCX_HELLO_VERSION),
        .flags = htole16(secret != NULL ? AUTH_HAS_KEY : 0),
    };

    if (secret != NULL) {
        kit_auth_exchange_begin(secret, &channel->auth.exchange);
        memcpy(challenge.share, channel->auth.exchange.share, sizeof(challenge.share));
    }
    memcpy(bytes, &challenge, sizeof(challenge));
    memcpy(channel->auth.challenge, bytes, UCX_CHALLENGE);
}

/* Of the one that we call. NULL: all is well. */
const char *ucx_auth_challenged(struct ucx_channel *channel, const uint8_t bytes[UCX_CHALLENGE])
{
    const struct kit_auth_secret *secret = channel->na_class->secret;
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
        kit_auth_exchange_begin(secret, &channel->auth.exchange);
    memcpy(channel->auth.challenge, bytes, UCX_CHALLENGE);
    channel->is_challenged = true;
    return NULL;
}

/* Our hello. False when the one that we called sent no share. */
bool ucx_auth_sign(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    if (channel->na_class->secret == NULL)
        return true;
    if (channel->is_dialed) {
        memcpy(data + UCX_HELLO_SHARE, channel->auth.exchange.share, KIT_AUTH_SHARE);
        if (!keys_make(channel, data, size))
            return false;
    }
    code_make(data + UCX_HELLO_TAG, channel->auth.keys.confirm_own, data, size);
    if (!channel->is_dialed)
        ucx_auth_wipe(channel);
    return true;
}

/* NULL: it has our key, or none as we have none. */
const char *ucx_auth_check(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    uint8_t code[KIT_AUTH_CODE], expected[KIT_AUTH_CODE] = {0};
    bool is_good = true;

    memcpy(code, data + UCX_HELLO_TAG, sizeof(code));
    memset(data + UCX_HELLO_TAG, 0, sizeof(code));
    if (channel->na_class->secret != NULL) {
        if (!channel->is_dialed)
            is_good = keys_make(channel, data, size);
        code_make(expected, channel->auth.keys.confirm_their, data, size);
        if (channel->is_dialed)
            ucx_auth_wipe(channel); /* nothing more is checked */
    }
    if (is_good && kit_auth_code_is_equal(code, expected))
        return NULL;
    channel->failure = NA_PLUGIN_PERMISSION;
    return "its key (auth_key) is not ours";
}

void ucx_auth_wipe(struct ucx_channel *channel)
{
    kit_auth_wipe(&channel->auth, sizeof(channel->auth));
}

/* Of the caller's hello, whose code is left out. False: what came is no share. */
static bool keys_make(struct ucx_channel *channel, const uint8_t *hello, uint32_t size)
{
    const size_t rest = UCX_HELLO_TAG + KIT_AUTH_CODE;
    const bool is_caller = channel->is_dialed;
    uint8_t challenged[KIT_AUTH_KEY], said[KIT_AUTH_KEY];

    kit_auth_digest(challenged, channel->auth.challenge, UCX_CHALLENGE, NULL, 0);
    kit_auth_digest(said, hello, UCX_HELLO_TAG, hello + rest, size - rest);
    return kit_auth_exchange_end(
        &channel->auth.exchange,
        is_caller ? channel->auth.challenge + UCX_CHALLENGE_SHARE : hello + UCX_HELLO_SHARE,
        is_caller ? said : challenged, is_caller ? challenged : said, &channel->auth.keys);
}

/* The code's own place counts as zeroes. */
static void code_make(uint8_t code[KIT_AUTH_CODE], const uint8_t key[KIT_AUTH_KEY], uint8_t *data,
                      uint32_t size)
{
    memset(data + UCX_HELLO_TAG, 0, KIT_AUTH_CODE);
    kit_auth_code(code, key, KIT_AUTH_KEY, data, size);
}
