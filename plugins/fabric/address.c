/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: lookup, strings, and the compact form that travels in messages. */

#include "state.h"

#include <stdio.h>
#include <string.h>

#define FABRIC_ADDR_MAGIC 0x41466d41u

/* The compact form, little-endian: this, then the name without NUL and the raw address. */
struct fabric_addr_packed {
    uint32_t magic;
    uint16_t name_size;
    uint16_t raw_size;
    uint64_t incarnation;
};

static uint64_t fabric_addr_packed_size(struct na_plugin_class *na_class,
                                        struct na_plugin_addr *addr);
static int32_t fabric_addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                void *buf, uint64_t size);
static int32_t fabric_addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                  uint64_t flags, struct na_plugin_addr **addr_p);
static int32_t fabric_addr_get(struct fabric_endpoint *endpoint, const char *name, const void *raw,
                               uint32_t raw_size, uint64_t incarnation,
                               struct na_plugin_addr **addr_p);

const struct na_plugin_addr_serialize fabric_addr_serialize_extension = {
    .extension = {.size = sizeof(struct na_plugin_addr_serialize)},
    .addr_serialize_size = fabric_addr_packed_size,
    .addr_serialize = fabric_addr_pack,
    .addr_deserialize = fabric_addr_unpack,
};

const void *fabric_get_extension(const char *id)
{
    if (strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0)
        return &fabric_multi_recv_extension;
    if (strcmp(id, NA_PLUGIN_EXT_ADDR_SERIALIZE) == 0)
        return &fabric_addr_serialize_extension;
    return NULL;
}

int32_t fabric_peer_lookup(struct fabric_endpoint *endpoint, const char *name, const void *raw,
                           uint32_t raw_size, struct na_plugin_addr **addr_p)
{
    size_t length = strlen(name);

    if (length == 0 || length >= FABRIC_NAME_MAX || raw_size > FABRIC_RAW_MAX) {
        FABRIC_LOG_ERROR(endpoint,
                         "a name of %zu and a raw address of %u bytes; 1 to %u and %u are "
                         "possible",
                         length, raw_size, FABRIC_NAME_MAX - 1, FABRIC_RAW_MAX);
        return NA_PLUGIN_INVALID_ARG;
    }
    return fabric_addr_get(endpoint, name, raw, raw_size, 0, addr_p);
}

void fabric_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    fabric_peer_release(fabric_addr_state(addr));
}

int32_t fabric_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                        struct na_plugin_addr **addr_p)
{
    (void) na_class;
    fabric_peer_hold(fabric_addr_state(addr));
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

int32_t fabric_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    struct fabric_peer_state *self = fabric_class(na_class)->state->self;

    return fabric_addr_dup(na_class, fabric_peer_addr(&self->peer), addr_p);
}

uint32_t fabric_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    return fabric_addr_state(addr)->is_self;
}

/* There is one object for each name; two names may mean one process. */
uint32_t fabric_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                             struct na_plugin_addr *addr2)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    uint32_t is_equal;

    if (addr1 == addr2)
        return 1;
    fabric_lock(endpoint);
    is_equal = fabric_addr_state(addr1)->canonical == fabric_addr_state(addr2)->canonical;
    fabric_unlock(endpoint);
    return is_equal;
}

int32_t fabric_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                              char *buf, uint64_t *size)
{
    const struct fabric_endpoint *endpoint = fabric_class(na_class);
    const char *name = fabric_addr_state(addr)->peer.name;
    uint64_t given = *size;

    *size = strlen(endpoint->plugin) + 1 + strlen(endpoint->protocol) + 3 + strlen(name) + 1;
    if (buf == NULL)
        return NA_PLUGIN_SUCCESS;
    if (given < *size)
        return NA_PLUGIN_OVERFLOW;
    (void) snprintf(buf, given, "%s+%s://%s", endpoint->plugin, endpoint->protocol, name);
    return NA_PLUGIN_SUCCESS;
}

int32_t fabric_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    struct fabric_peer_state *peer = fabric_addr_state(addr);

    fabric_lock(endpoint);
    peer->is_removable = true;
    endpoint->state->is_sweep_due = true;
    fabric_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

static uint64_t fabric_addr_packed_size(struct na_plugin_class *na_class,
                                        struct na_plugin_addr *addr)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    const struct fabric_peer *peer = &fabric_addr_state(addr)->peer;
    uint64_t size;

    fabric_lock(endpoint);
    size = sizeof(struct fabric_addr_packed) + strlen(peer->name) + peer->raw_size;
    fabric_unlock(endpoint);
    return size;
}

static int32_t fabric_addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                void *buf, uint64_t size)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    const struct fabric_peer_state *peer = fabric_addr_state(addr);
    size_t name_size = strlen(peer->peer.name);
    struct fabric_addr_packed packed = {.magic = htole32(FABRIC_ADDR_MAGIC)};
    uint8_t *place = buf;
    int32_t ret = NA_PLUGIN_OVERFLOW;

    fabric_lock(endpoint);
    if (size < sizeof(packed) + name_size + peer->peer.raw_size) {
        FABRIC_LOG_ERROR(endpoint, "the address %s needs %zu bytes, %llu are given",
                         peer->peer.name, sizeof(packed) + name_size + peer->peer.raw_size,
                         (unsigned long long) size);
        goto out;
    }
    packed.name_size = htole16((uint16_t) name_size);
    packed.raw_size = htole16((uint16_t) peer->peer.raw_size);
    packed.incarnation = htole64(peer->their_incarnation);
    memcpy(place, &packed, sizeof(packed));
    memcpy(place + sizeof(packed), peer->peer.name, name_size);
    if (peer->peer.raw_size != 0)
        memcpy(place + sizeof(packed) + name_size, peer->peer.raw, peer->peer.raw_size);
    ret = NA_PLUGIN_SUCCESS;

out:
    fabric_unlock(endpoint);
    return ret;
}

/* The buffer may be longer than what was written into it. */
static int32_t fabric_addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                  uint64_t flags, struct na_plugin_addr **addr_p)
{
    struct fabric_endpoint *endpoint = fabric_class(na_class);
    const uint8_t *rest = (const uint8_t *) buf + sizeof(struct fabric_addr_packed);
    struct fabric_addr_packed packed;
    char name[FABRIC_NAME_MAX];
    uint32_t name_size, raw_size;

    (void) flags;
    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    name_size = le16toh(packed.name_size);
    raw_size = le16toh(packed.raw_size);
    if (le32toh(packed.magic) != FABRIC_ADDR_MAGIC || raw_size > FABRIC_RAW_MAX ||
        sizeof(packed) + name_size + raw_size > size || !fabric_name_is_good(rest, name_size))
        goto refuse;
    memcpy(name, rest, name_size);
    name[name_size] = '\0';
    return fabric_addr_get(endpoint, name, rest + name_size, raw_size, le64toh(packed.incarnation),
                           addr_p);

refuse:
    FABRIC_LOG_ERROR(endpoint, "%llu bytes are not a serialized address of %s+%s",
                     (unsigned long long) size, endpoint->plugin, endpoint->protocol);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

/* One reference. A peer that is known by its incarnation already is not sent a HELLO for it. */
static int32_t fabric_addr_get(struct fabric_endpoint *endpoint, const char *name, const void *raw,
                               uint32_t raw_size, uint64_t incarnation,
                               struct na_plugin_addr **addr_p)
{
    struct fabric_endpoint_state *state = endpoint->state;
    struct fabric_peer_state *peer;
    int32_t ret = NA_PLUGIN_SUCCESS;

    fabric_lock(endpoint);
    if (incarnation != 0 && incarnation == state->incarnation)
        peer = state->self;
    else
        peer = incarnation != 0 ? fabric_peer_by_incarnation(state, incarnation) : NULL;
    if (peer != NULL)
        goto found;
    peer = fabric_peer_by_name(state, name);
    if (peer != NULL) {
        fabric_peer_hello_again(peer);
        goto found;
    }
    ret = fabric_peer_make(state, name, &peer);
    if (ret == NA_PLUGIN_SUCCESS && raw != NULL)
        ret = fabric_peer_set_raw(peer, raw, raw_size);
    if (ret != NA_PLUGIN_SUCCESS) {
        FABRIC_LOG_ERROR(endpoint, "no memory for the peer %s", name);
        goto out;
    }

found:
    peer->is_removable = false;
    fabric_peer_hold(peer);
    *addr_p = fabric_peer_addr(&peer->peer);

out:
    fabric_unlock(endpoint);
    return ret;
}
