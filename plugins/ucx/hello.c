/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The HELLO on a channel: one message each way, little-endian. UCX trusts a worker's address, so
 * the address is used only if the digest of the message is right.
 */

#include "ucx.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define HELLO_MAGIC      0x4c485855u
#define HELLO_REFUSAL    0x52585855u /* in place of the magic: the keys differ */
#define HELLO_CLAIM      0x43434855u /* in place of the magic: struct ucx_claim */
#define HELLO_CALL       "amalgam ucx call"

#define HELLO_ATTACHABLE 0x01u /* the sender has a socket of process.c */
#define HELLO_NATIVE     0x02u /* memory handles have UCP's remote keys, for RDMA transports */
#define HELLO_NATIVE_ANY 0x04u /* for other transports as well */

/* The worker's address and the name follow. */
struct hello_wire {
    uint32_t magic;
    uint16_t version;
    uint16_t reserved1;
    uint32_t size; /* of all */
    uint32_t address_size;
    uint64_t digest;                           /* of all that follows the share */
    uint8_t codes[KIT_SECRETS][KIT_AUTH_CODE]; /* see auth.c */
    uint8_t share[KIT_AUTH_SHARE];
    uint64_t incarnation;
    uint64_t link_id;
    struct kit_key secret; /* the receiver sends it with link_id; not byte-swapped */
    uint32_t flags;        /* HELLO_* */
    uint16_t name_size;
    uint16_t reserved2;
    uint64_t reserved3;
};

_Static_assert(sizeof(struct hello_wire) == UCX_HELLO_HEAD, "layout of the wire");
_Static_assert(offsetof(struct hello_wire, codes) == UCX_HELLO_CODES, "layout of the wire");
_Static_assert(offsetof(struct hello_wire, share) == UCX_HELLO_SHARE, "layout of the wire");
_Static_assert(offsetof(struct hello_wire, incarnation) == UCX_HELLO_REST, "layout of the wire");

static uint32_t hello_flags(const struct na_plugin_class *na_class);
static struct kit_key call_proof(const struct kit_key *secret);
static uint64_t hello_digest(const uint8_t *data, uint32_t size);

/* This side's HELLO, which the caller frees; NULL without memory. */
uint8_t *ucx_hello_write(const struct ucx_link *link, uint32_t *size_p)
{
    const struct na_plugin_class *na_class = link->na_class;
    const struct ucx_worker *worker = link->worker;
    size_t name_size = strlen(na_class->name);
    uint32_t size = (uint32_t) (UCX_HELLO_HEAD + worker->address_size + name_size);
    struct hello_wire wire = {
        .magic = htole32(HELLO_MAGIC),
        .version = htole16(UCX_HELLO_VERSION),
        .size = htole32(size),
        .address_size = htole32((uint32_t) worker->address_size),
        .incarnation = htole64(na_class->incarnation),
        .link_id = htole64(link->id),
        .secret = link->secret,
        .flags = htole32(hello_flags(na_class)),
        .name_size = htole16((uint16_t) name_size),
    };
    uint8_t *data = kit_host->mem_alloc(size, 0), *at;

    if (data == NULL)
        return NULL;
    at = data + sizeof(wire);
    memcpy(at, worker->address, worker->address_size);
    memcpy(at + worker->address_size, na_class->name, name_size);
    memcpy(data, &wire, sizeof(wire));
    wire.digest = htole64(hello_digest(data, size));
    memcpy(data, &wire, sizeof(wire));
    *size_p = size;
    return data;
}

static uint32_t hello_flags(const struct na_plugin_class *na_class)
{
    uint32_t flags = na_class->may_attach ? HELLO_ATTACHABLE : 0;

    if (na_class->wants_keys)
        flags |= HELLO_NATIVE | (na_class->rma_choice == UCX_RMA_UCP ? HELLO_NATIVE_ANY : 0);
    return flags;
}

/* Reads the first UCX_HELLO_HEAD bytes. Returns NULL and the size of all, or what is wrong. */
const char *ucx_hello_head(const uint8_t *data, uint32_t *size_p)
{
    struct hello_wire wire;

    memcpy(&wire, data, sizeof(wire));
    if (le32toh(wire.magic) != HELLO_MAGIC)
        return "it does not speak this protocol";
    if (le16toh(wire.version) != UCX_HELLO_VERSION)
        return "it speaks another version of this protocol: both sides must use the same release";
    *size_p = le32toh(wire.size);
    if (*size_p <= UCX_HELLO_HEAD || *size_p > UCX_HELLO_MAX)
        return "its introduction has an impossible size";
    return NULL;
}

/* Returns NULL, and `hello` refers to `data`; or what is wrong. */
const char *ucx_hello_read(const uint8_t *data, uint32_t size, struct ucx_hello *hello)
{
    struct hello_wire wire;
    uint64_t sum;
    uint32_t name_size;

    memcpy(&wire, data, sizeof(wire));
    hello->address_size = le32toh(wire.address_size);
    hello->is_attachable = (le32toh(wire.flags) & HELLO_ATTACHABLE) != 0;
    hello->is_native = (le32toh(wire.flags) & HELLO_NATIVE) != 0;
    hello->is_native_any = (le32toh(wire.flags) & HELLO_NATIVE_ANY) != 0;
    name_size = le16toh(wire.name_size);
    sum = (uint64_t) UCX_HELLO_HEAD + hello->address_size + name_size;
    if (sum != size || hello->address_size == 0 || name_size == 0 || name_size >= KIT_NAME_MAX)
        return "the parts of its introduction do not add up";
    if (le64toh(wire.digest) != hello_digest(data, size))
        return "its introduction was garbled";
    hello->incarnation = le64toh(wire.incarnation);
    hello->link_id = le64toh(wire.link_id);
    hello->secret = wire.secret;
    hello->address = data + UCX_HELLO_HEAD;
    memcpy(hello->name, data + size - name_size, name_size);
    hello->name[name_size] = '\0';
    for (uint32_t i = 0; i < name_size; i++)
        if ((unsigned char) hello->name[i] <= ' ' || (unsigned char) hello->name[i] >= 0x7f)
            return "its name has characters that no name has";
    return NULL;
}

void ucx_hello_refuse(uint8_t bytes[UCX_HELLO_HEAD])
{
    struct hello_wire wire = {.magic = htole32(HELLO_REFUSAL)};

    memcpy(bytes, &wire, sizeof(wire));
}

bool ucx_hello_is_refusal(const uint8_t *data)
{
    uint32_t magic;

    memcpy(&magic, data, sizeof(magic));
    return le32toh(magic) == HELLO_REFUSAL;
}

/*
 * Writes the claim for a caller whose name is being dialed (struct ucx_claim). The caller may be
 * any process, so the claim does not have the secret itself.
 */
void ucx_hello_claim(const struct ucx_link *link, uint8_t bytes[UCX_HELLO_HEAD])
{
    struct hello_wire wire = {
        .magic = htole32(HELLO_CLAIM),
        .incarnation = htole64(link->na_class->incarnation),
        .link_id = htole64(link->id),
        .secret = call_proof(&link->secret),
    };

    memcpy(bytes, &wire, sizeof(wire));
}

bool ucx_hello_is_claim(const uint8_t *data, struct ucx_claim *claim)
{
    struct hello_wire wire;

    memcpy(&wire, data, sizeof(wire));
    if (le32toh(wire.magic) != HELLO_CLAIM)
        return false;
    claim->incarnation = le64toh(wire.incarnation);
    claim->link_id = le64toh(wire.link_id);
    claim->proof = wire.secret;
    return true;
}

/* Whether the claim and the HELLO are from the same process. */
bool ucx_hello_is_claimed(const struct ucx_hello *hello, const struct ucx_claim *claim)
{
    const struct kit_key proof = call_proof(&hello->secret);

    return claim->incarnation == hello->incarnation && claim->link_id == hello->link_id &&
           kit_key_is_equal(&claim->proof, &proof);
}

/* Proves knowledge of the secret without revealing it. */
static struct kit_key call_proof(const struct kit_key *secret)
{
    struct kit_key proof;
    uint8_t code[KIT_AUTH_CODE];

    kit_auth_code(code, secret, sizeof(*secret), HELLO_CALL, strlen(HELLO_CALL));
    memcpy(&proof, code, sizeof(proof));
    return proof;
}

static uint64_t hello_digest(const uint8_t *data, uint32_t size)
{
    return kit_digest_add(KIT_DIGEST_NONE, data + UCX_HELLO_REST, size - UCX_HELLO_REST);
}
