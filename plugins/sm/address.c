/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses: strings and the compact form that travels in messages. */

#include "sm.h"

#include <stdio.h>
#include <string.h>

/* The compact form: this, then the name without a NUL. */
struct sm_addr_packed {
    uint32_t magic;
    uint32_t name_length;
    uint64_t incarnation;
};

#define SM_ADDR_MAGIC 0x52444153u

static const char *sm_addr_name(const char *string);
static bool sm_addr_is_number(const char *name);
static uint64_t sm_addr_packed_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
static int32_t sm_addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                            void *buf, uint64_t size);
static int32_t sm_addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                              uint64_t flags, struct na_plugin_addr **addr_p);

const struct na_plugin_addr_serialize sm_addr_serialize_extension = {
    .extension = {.size = sizeof(struct na_plugin_addr_serialize)},
    .addr_serialize_size = sm_addr_packed_size,
    .addr_serialize = sm_addr_pack,
    .addr_deserialize = sm_addr_unpack,
};

int32_t sm_addr_lookup(struct na_plugin_class *na_class, const char *name,
                       struct na_plugin_addr **addr_p)
{
    const char *endpoint = sm_addr_name(name);
    const char *reason = "it is not of the form na+sm://<name>";
    int32_t ret;

    if (endpoint == NULL || !sm_name_check(endpoint, strlen(endpoint), &reason)) {
        SM_LOG_ERROR("'%.100s' is not an address: %s", name, reason);
        return NA_PLUGIN_INVALID_ARG;
    }
    ret = sm_peer_get(na_class, endpoint, 0, true, addr_p);
    if (ret != NA_PLUGIN_NOENTRY)
        return ret;
    if (sm_addr_is_number(endpoint)) {
        SM_LOG_INFO("'%s': no endpoint of this name lives on this node for this user", name);
        return sm_peer_get_absent(na_class, endpoint, addr_p);
    }
    SM_LOG_ERROR("'%s': no endpoint of this name lives on this node for this user", name);
    return ret;
}

void sm_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    sm_peer_release(addr);
}

int32_t sm_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                    struct na_plugin_addr **addr_p)
{
    (void) na_class;
    sm_peer_hold(addr);
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

int32_t sm_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    return sm_addr_dup(na_class, na_class->self, addr_p);
}

uint32_t sm_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    return addr == na_class->self;
}

uint32_t sm_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                         struct na_plugin_addr *addr2)
{
    (void) na_class;
    return sm_peer_current(addr1) == sm_peer_current(addr2); /* an endpoint has one object */
}

/* The first call, or the first transfer, probes whether cross-memory attach reaches the peer. */
uint64_t sm_addr_capabilities(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    struct na_plugin_addr *peer = sm_peer_current(addr);

    if (sm_peer_failure(peer) == 0 && sm_native_available(peer))
        return na_class->capabilities;
    return na_class->capabilities & ~NA_PLUGIN_CAP_RMA_NATIVE;
}

int32_t sm_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr, char *buf,
                          uint64_t *size)
{
    uint64_t needed = sizeof(SM_ADDRESS_START) + strlen(addr->name);
    uint64_t given = *size;

    (void) na_class;
    *size = needed;
    if (buf == NULL)
        return NA_PLUGIN_SUCCESS;
    if (given < needed)
        return NA_PLUGIN_OVERFLOW;
    (void) snprintf(buf, given, SM_ADDRESS_START "%s", addr->name);
    return NA_PLUGIN_SUCCESS;
}

/* Checks the peer at once; a dead unreferenced peer is destroyed without this call, too. */
int32_t sm_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    if (addr != addr->na_class->self)
        sm_peer_suspect(addr);
    return NA_PLUGIN_SUCCESS;
}

/* As kit_address_name(), with each of the plugin's class names. */
static const char *sm_addr_name(const char *string)
{
    const char *name = kit_address_name(string, "na", "sm");

    return name != NULL ? name : kit_address_name(string, SM_PLUGIN_NAME, "sm");
}

static uint64_t sm_addr_packed_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) na_class;
    return sizeof(struct sm_addr_packed) + strlen(addr->name);
}

static int32_t sm_addr_pack(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                            void *buf, uint64_t size)
{
    struct sm_addr_packed packed = {
        .magic = SM_ADDR_MAGIC,
        .name_length = (uint32_t) strlen(addr->name),
        .incarnation = sm_peer_current(addr)->header.incarnation,
    };

    (void) na_class;
    if (packed.incarnation == 0) {
        SM_LOG_DEBUG("'%s' has no compact form: nobody lived there when it was looked up",
                     addr->name);
        return NA_PLUGIN_NOENTRY;
    }
    if (size < sizeof(packed) + packed.name_length) {
        SM_LOG_ERROR("an address needs %zu bytes, %llu are given",
                     sizeof(packed) + packed.name_length, (unsigned long long) size);
        return NA_PLUGIN_OVERFLOW;
    }
    memcpy(buf, &packed, sizeof(packed));
    memcpy((uint8_t *) buf + sizeof(packed), addr->name, packed.name_length);
    return NA_PLUGIN_SUCCESS;
}

static int32_t sm_addr_unpack(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                              uint64_t flags, struct na_plugin_addr **addr_p)
{
    struct sm_addr_packed packed;
    char name[SM_NAME_MAX + 1] = {0};
    const char *reason = "it is too short or of another kind";
    int32_t ret;

    (void) flags;
    if (size < sizeof(packed))
        goto refuse;
    memcpy(&packed, buf, sizeof(packed));
    if (packed.magic != SM_ADDR_MAGIC || packed.incarnation == 0 ||
        packed.name_length > SM_NAME_MAX || packed.name_length > size - sizeof(packed))
        goto refuse;
    memcpy(name, (const uint8_t *) buf + sizeof(packed), packed.name_length);
    if (strlen(name) != packed.name_length || !sm_name_check(name, packed.name_length, &reason))
        goto refuse;
    ret = sm_peer_get(na_class, name, packed.incarnation, true, addr_p);
    if (ret == NA_PLUGIN_NOENTRY)
        SM_LOG_ERROR("'%s': the endpoint that a serialized address means is gone", name);
    return ret;

refuse:
    SM_LOG_ERROR("%llu bytes are not a serialized address: %s", (unsigned long long) size, reason);
    return NA_PLUGIN_PROTOCOL_ERROR;
}

/*
 * True for <pid>-<number>, the default name of an endpoint. Programs keep such addresses beyond the
 * process, so their lookup succeeds and operations fail; the lookup of another name fails.
 */
static bool sm_addr_is_number(const char *name)
{
    size_t process = strspn(name, "0123456789");
    size_t number = name[process] == '-' ? strspn(name + process + 1, "0123456789") : 0;

    return process > 0 && number > 0 && name[process + 1 + number] == '\0';
}
