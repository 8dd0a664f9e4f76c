/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: lookup, strings and serialization; and registration for the events of lost peers.
 */

#include "msg_state.h"

#include <stdio.h>
#include <string.h>

#define MSG_ADDR_MAGIC 0x41466d41u

/* A serialized address, little-endian: this, then the name without NUL and the raw address. */
struct msg_addr_packed {
    uint32_t magic;
    uint16_t name_size;
    uint16_t raw_size;
    uint64_t incarnation;
};

static uint64_t addr_packed_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
static int32_t addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr, void *buf,
                         uint64_t size);
static int32_t addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           uint64_t flags, struct na_plugin_addr **addr_p);
static int32_t addr_get(struct kit_endpoint *endpoint, const char *name, const void *raw,
                        uint32_t raw_size, uint64_t incarnation, struct na_plugin_addr **addr_p);
static int32_t peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                               void *arg);

static inline struct kit_peer *addr_peer(struct na_plugin_addr *addr)
{
    return (struct kit_peer *) (void *) addr;
}

const struct na_plugin_addr_serialize kit_msg_addr_serialize_extension = {
    .extension = {.size = sizeof(struct na_plugin_addr_serialize)},
    .addr_serialize_size = addr_packed_size,
    .addr_serialize = addr_pack,
    .addr_deserialize = addr_unpack,
};

const struct na_plugin_peer_events kit_msg_peer_events_extension = {
    .extension = {.size = sizeof(struct na_plugin_peer_events)},
    .peer_events_set = peer_events_set,
};

const void *kit_msg_get_extension(const char *id)
{
    if (strcmp(id, NA_PLUGIN_EXT_MULTI_RECV) == 0)
        return &kit_msg_multi_recv_extension;
    if (strcmp(id, NA_PLUGIN_EXT_ADDR_SERIALIZE) == 0)
        return &kit_msg_addr_serialize_extension;
    if (strcmp(id, NA_PLUGIN_EXT_COUNTERS) == 0)
        return &kit_msg_counters_extension;
    if (strcmp(id, NA_PLUGIN_EXT_PEER_EVENTS) == 0)
        return &kit_msg_peer_events_extension;
    return NULL;
}

int32_t kit_msg_peer_lookup(struct kit_endpoint *endpoint, const char *name, const void *raw,
                            uint32_t raw_size, struct na_plugin_addr **addr_p)
{
    size_t length = strlen(name);

    if (length == 0 || length >= KIT_NAME_MAX || raw_size > KIT_RAW_MAX) {
        MSG_LOG_ERROR(endpoint,
                      "a name of %zu and a raw address of %u bytes; 1 to %u and %u are "
                      "possible",
                      length, raw_size, KIT_NAME_MAX - 1, KIT_RAW_MAX);
        return NA_PLUGIN_INVALID_ARG;
    }
    return addr_get(endpoint, name, raw, raw_size, 0, addr_p);
}

void kit_msg_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    kit_peer_release(addr_peer(addr));
}

void kit_msg_peer_hold(void *owner, void *peer)
{
    (void) owner;
    kit_peer_hold(peer);
}

void kit_msg_peer_release(void *owner, void *peer)
{
    (void) owner;
    kit_peer_release(peer);
}

int32_t kit_msg_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                         struct na_plugin_addr **addr_p)
{
    (void) na_class;
    kit_peer_hold(addr_peer(addr));
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

int32_t kit_msg_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    struct kit_peer *self = msg_class(na_class)->state->session.self;

    return kit_msg_addr_dup(na_class, msg_peer_addr(self), addr_p);
}

uint32_t kit_msg_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    return addr_peer(addr)->is_self;
}

/* There is one peer for each name, and two names may be one process. */
uint32_t kit_msg_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                              struct na_plugin_addr *addr2)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    uint32_t is_equal;

    if (addr1 == addr2)
        return 1;
    kit_msg_lock(endpoint);
    is_equal = addr_peer(addr1)->canonical == addr_peer(addr2)->canonical;
    kit_msg_unlock(endpoint);
    return is_equal;
}

int32_t kit_msg_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                               char *buf, uint64_t *size)
{
    const struct kit_endpoint *endpoint = msg_class(na_class);
    const char *name = addr_peer(addr)->name;
    uint64_t given = *size;

    *size = strlen(endpoint->plugin) + 1 + strlen(endpoint->protocol) + 3 + strlen(name) + 1;
    if (buf == NULL)
        return NA_PLUGIN_SUCCESS;
    if (given < *size)
        return NA_PLUGIN_OVERFLOW;
    (void) snprintf(buf, given, "%s+%s://%s", endpoint->plugin, endpoint->protocol, name);
    return NA_PLUGIN_SUCCESS;
}

int32_t kit_msg_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    struct kit_peer *peer = addr_peer(addr);

    kit_msg_lock(endpoint);
    peer->is_removable = true;
    endpoint->state->session.is_sweep_due = true;
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}

static uint64_t addr_packed_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    const struct kit_peer *peer = addr_peer(addr);
    uint64_t size;

    kit_msg_lock(endpoint);
    size = sizeof(struct msg_addr_packed) + strlen(peer->name) + peer->raw_size;
    kit_msg_unlock(endpoint);
    return size;
}

static int32_t addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr, void *buf,
                         uint64_t size)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    const struct kit_peer *peer = addr_peer(addr);
    size_t name_size = strlen(peer->name);
    struct msg_addr_packed packed = {.magic = htole32(MSG_ADDR_MAGIC)};
    uint8_t *place = buf;
    int32_t ret = NA_PLUGIN_OVERFLOW;

    kit_msg_lock(endpoint);
    if (size < sizeof(packed) + name_size + peer->raw_size) {
        MSG_LOG_ERROR(endpoint, "the address %s needs %zu bytes, %llu are given", peer->name,
                      sizeof(packed) + name_size + peer->raw_size, (unsigned long long) size);
        goto out;
    }
    packed.name_size = htole16((uint16_t) name_size);
    packed.raw_size = htole16((uint16_t) peer->raw_size);
    packed.incarnation = htole64(peer->their_incarnation);
    memcpy(place, &packed, sizeof(packed));
    memcpy(place + sizeof(packed), peer->name, name_size);
    if (peer->raw_size != 0)
        memcpy(place + sizeof(packed) + name_size, peer->raw, peer->raw_size);
    ret = NA_PLUGIN_SUCCESS;

out:
    kit_msg_unlock(endpoint);
    return ret;
}

/* The buffer may be longer than the serialized address. */
static int32_t addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           uint64_t flags, struct na_plugin_addr **addr_p)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    const uint8_t *rest = (const uint8_t *) buf + sizeof(struct msg_addr_packed);
    struct msg_addr_packed packed;
    char name[KIT_NAME_MAX];
    uint32_t name_size, raw_size;

    (void) flags;
    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    name_size = le16toh(packed.name_size);
    raw_size = le16toh(packed.raw_size);
    if (le32toh(packed.magic) != MSG_ADDR_MAGIC || raw_size > KIT_RAW_MAX ||
        sizeof(packed) + name_size + raw_size > size || !kit_name_is_good(rest, name_size))
        goto refuse;
    memcpy(name, rest, name_size);
    name[name_size] = '\0';
    return addr_get(endpoint, name, rest + name_size, raw_size, le64toh(packed.incarnation),
                    addr_p);

refuse:
    MSG_LOG_ERROR(endpoint, "%llu bytes are not a serialized address of %s+%s",
                  (unsigned long long) size, endpoint->plugin, endpoint->protocol);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

/* Returns a peer with a reference. One that is found by its incarnation is not sent a HELLO. */
static int32_t addr_get(struct kit_endpoint *endpoint, const char *name, const void *raw,
                        uint32_t raw_size, uint64_t incarnation, struct na_plugin_addr **addr_p)
{
    struct msg_endpoint *state = endpoint->state;
    struct kit_peer *peer;
    int32_t ret = NA_PLUGIN_SUCCESS;

    kit_msg_lock(endpoint);
    if (incarnation != 0 && incarnation == state->session.incarnation)
        peer = state->session.self;
    else
        peer = incarnation != 0 ? kit_peer_by_incarnation(&state->session, incarnation) : NULL;
    if (peer != NULL)
        goto found;
    peer = kit_peer_by_name(&state->session, name);
    if (peer != NULL) {
        kit_peer_hello_again(peer);
        goto found;
    }
    ret = kit_peer_make(&state->session, name, &peer);
    if (ret == NA_PLUGIN_SUCCESS) {
        (void) kit_msg_peer_init(endpoint, peer);
        ret = kit_peer_set_raw(peer, raw, raw != NULL ? raw_size : 0);
    }
    if (ret != NA_PLUGIN_SUCCESS) {
        MSG_LOG_ERROR(endpoint, "no memory for the peer %s", name);
        goto out;
    }

found:
    peer->is_removable = false;
    kit_peer_hold(peer);
    *addr_p = msg_peer_addr(peer);

out:
    kit_msg_unlock(endpoint);
    return ret;
}

static int32_t peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                               void *arg)
{
    struct kit_endpoint *endpoint = msg_class(na_class);
    struct msg_endpoint *state = endpoint->state;

    kit_msg_lock(endpoint);
    state->peer_lost = report;
    state->peer_lost_arg = arg;
    kit_session_watch_all(&state->session, report != NULL);
    if (state->armed_count != 0)
        kit_msg_wait_wake_any(state); /* so that its next sleep has a timer */
    kit_msg_unlock(endpoint);
    return NA_PLUGIN_SUCCESS;
}
