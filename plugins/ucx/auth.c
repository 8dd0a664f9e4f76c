/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether the process at the other end of a socket has the same key, before anything that it sends
 * reaches UCX. Who is called begins with a random number; what the two say of themselves then
 * carries a tag under the key, over that number, the message, and by who is called over the
 * caller's tag: nothing of another connection fits. HMAC-SHA-256, cut to 128 bits.
 */

#include "ucx.h"

#include "hg/key.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

#define AUTH_MAGIC   0x43435855u
#define AUTH_HAS_KEY 0x01u
#define AUTH_SALT    "amalgam ucx introduction"

/* What the called one says first; little-endian. */
struct auth_challenge {
    uint32_t magic;
    uint16_t version;
    uint16_t flags;
    struct kit_key nonce;
};

_Static_assert(sizeof(struct auth_challenge) == UCX_CHALLENGE, "layout of the wire");

/* What the tag covers before the message. */
struct auth_prefix {
    uint64_t is_caller;
    struct kit_key nonce;
    struct kit_key asked;
};

static bool auth_tag(const struct ucx_channel *channel, bool is_caller, const uint8_t *data,
                     uint32_t size, struct kit_key *tag);

void ucx_auth_setup(struct na_plugin_class *na_class, const char *text)
{
    struct hg_key key;

    if (text == NULL || text[0] == '\0')
        return;
    hg_key_derive(&key, text, strlen(text), AUTH_SALT, strlen(AUTH_SALT), HG_KEY_ROUNDS);
    memcpy(&na_class->key, &key, sizeof(na_class->key));
    na_class->has_key = true;
}

/* For somebody who calls. */
int32_t ucx_auth_challenge(struct ucx_channel *channel, uint8_t bytes[UCX_CHALLENGE])
{
    struct auth_challenge challenge = {
        .magic = htole32(AUTH_MAGIC),
        .version = htole16(UCX_HELLO_VERSION),
        .flags = htole16(channel->na_class->has_key ? AUTH_HAS_KEY : 0),
    };
    int32_t ret = kit_key_take(&channel->na_class->keys, &channel->nonce);

    if (ret != NA_PLUGIN_SUCCESS)
        UCX_LOG_ERROR("no random numbers for a caller (%s)", strerror(errno));
    challenge.nonce = channel->nonce;
    memcpy(bytes, &challenge, sizeof(challenge));
    return ret;
}

/* Of the one that we call. NULL: all is well. */
const char *ucx_auth_challenged(struct ucx_channel *channel, const uint8_t bytes[UCX_CHALLENGE])
{
    struct auth_challenge challenge;
    bool has_key;

    memcpy(&challenge, bytes, sizeof(challenge));
    if (le32toh(challenge.magic) != AUTH_MAGIC)
        return "it does not speak this protocol";
    if (le16toh(challenge.version) != UCX_HELLO_VERSION)
        return "it speaks another version of this protocol";
    has_key = (le16toh(challenge.flags) & AUTH_HAS_KEY) != 0;
    if (has_key != channel->na_class->has_key) {
        channel->failure = NA_PLUGIN_PERMISSION;
        return has_key ? "it asks for a key (auth_key), and we have none"
                       : "we have a key (auth_key), and it has none";
    }
    channel->nonce = challenge.nonce;
    channel->is_challenged = true;
    return NULL;
}

/* False without memory. */
bool ucx_auth_sign(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    struct kit_key tag = {{0, 0}};

    if (channel->na_class->has_key && !auth_tag(channel, channel->is_dialed, data, size, &tag))
        return false;
    memcpy(data + UCX_HELLO_TAG, &tag, sizeof(tag));
    if (channel->is_dialed)
        channel->asked = tag;
    return true;
}

/* NULL: it has our key, or none as we have none. */
const char *ucx_auth_check(struct ucx_channel *channel, uint8_t *data, uint32_t size)
{
    struct kit_key tag, expected = {{0, 0}};

    memcpy(&tag, data + UCX_HELLO_TAG, sizeof(tag));
    memset(data + UCX_HELLO_TAG, 0, sizeof(tag));
    if (channel->na_class->has_key &&
        !auth_tag(channel, !channel->is_dialed, data, size, &expected))
        return "no memory to look at its key";
    if (!kit_key_is_equal(&tag, &expected)) {
        channel->failure = NA_PLUGIN_PERMISSION;
        return "its key (auth_key) is not ours";
    }
    if (!channel->is_dialed)
        channel->asked = tag;
    return NULL;
}

/* PBKDF2 of one round is HMAC of the salt with a number behind it. */
struct kit_key ucx_hmac(const struct kit_key *key, const void *message, size_t size)
{
    struct kit_key code;
    struct hg_key made;

    hg_key_derive(&made, key, sizeof(*key), message, size, 1);
    code.word[0] = htole64(made.k0);
    code.word[1] = htole64(made.k1);
    return code;
}

static bool auth_tag(const struct ucx_channel *channel, bool is_caller, const uint8_t *data,
                     uint32_t size, struct kit_key *tag)
{
    struct auth_prefix prefix = {.is_caller = htole64(is_caller), .nonce = channel->nonce};
    const struct kit_key *key = &channel->na_class->key;
    uint8_t *message = kit_host->mem_alloc(sizeof(prefix) + size, 0);

    if (message == NULL)
        return false;
    if (!is_caller)
        prefix.asked = channel->asked;
    memcpy(message, &prefix, sizeof(prefix));
    memcpy(message + sizeof(prefix), data, size);
    memset(message + sizeof(prefix) + UCX_HELLO_TAG, 0, sizeof(*tag));
    *tag = ucx_hmac(key, message, sizeof(prefix) + size);
    kit_host->mem_free(message);
    return true;
}
