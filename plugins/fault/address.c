/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses are the wrapped plugin's, also as strings, so that a peer need not be wrapped. */

#include "fault.h"

#include <string.h>

#define PREFIX FAULT_PLUGIN_NAME "+"

static uint64_t serialize_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr);
static int32_t serialize(struct na_plugin_class *na_class, struct na_plugin_addr *addr, void *buf,
                         uint64_t size);
static int32_t deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           uint64_t flags, struct na_plugin_addr **addr_p);

const struct na_plugin_addr_serialize fault_addr_serialize_extension = {
    .extension = {.size = sizeof(struct na_plugin_addr_serialize)},
    .addr_serialize_size = serialize_size,
    .addr_serialize = serialize,
    .addr_deserialize = deserialize,
};

/* Also accepts the init string with which the peer was opened: prefix and options are cut off. */
int32_t fault_addr_lookup(struct na_plugin_class *na_class, const char *name,
                          struct na_plugin_addr **addr_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);
    size_t length;
    const char *options;
    char *copy, *mark;
    int32_t ret;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return fault_class->inner->addr_lookup(fault_class->inner_class, name, addr_p);
    name += strlen(PREFIX);
    length = strlen(name);
    copy = kit_host->mem_alloc(length + 1, 0);
    if (copy == NULL)
        return NA_PLUGIN_NOMEM;
    memcpy(copy, name, length + 1);
    mark = strrchr(copy, '?');
    if (mark != NULL)
        *mark = '\0';
    ret = fault_split_options(fault_class->inner, copy, &options);
    if (ret == NA_PLUGIN_SUCCESS)
        ret = fault_class->inner->addr_lookup(fault_class->inner_class, copy, addr_p);
    kit_host->mem_free(copy);
    return ret;
}

void fault_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    fault_class->inner->addr_free(fault_class->inner_class, addr);
}

/* The wrapped plugin reports to the core directly, because its addresses are ours. */
static int32_t peer_events_set(struct na_plugin_class *na_class, na_plugin_peer_lost_fn report,
                               void *arg)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->peer_events.peer_events_set != NULL
               ? fault_class->peer_events.peer_events_set(fault_class->inner_class, report, arg)
               : NA_PLUGIN_OPNOTSUPPORTED;
}

const struct na_plugin_peer_events fault_peer_events_extension = {
    .extension = {.size = sizeof(struct na_plugin_peer_events)},
    .peer_events_set = peer_events_set,
};

/* Only a core of ABI 1.2 or later calls this, so its table of the wrapped plugin has the member. */
uint64_t fault_addr_capabilities(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    const struct fault_class *fault_class = fault_class_get(na_class);
    const struct na_plugin *inner = fault_class->inner;

    return inner->addr_capabilities != NULL
               ? inner->addr_capabilities(fault_class->inner_class, addr)
               : UINT64_MAX;
}

int32_t fault_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                       struct na_plugin_addr **addr_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->addr_dup(fault_class->inner_class, addr, addr_p);
}

int32_t fault_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->addr_self(fault_class->inner_class, addr_p);
}

uint32_t fault_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->addr_is_self(fault_class->inner_class, addr);
}

uint32_t fault_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                            struct na_plugin_addr *addr2)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->addr_compare(fault_class->inner_class, addr1, addr2);
}

int32_t fault_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                             char *buf, uint64_t *size)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    return fault_class->inner->addr_to_string(fault_class->inner_class, addr, buf, size);
}

int32_t fault_addr_set_remove(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->inner->addr_set_remove == NULL)
        return NA_PLUGIN_SUCCESS;
    return fault_class->inner->addr_set_remove(fault_class->inner_class, addr);
}

/* Without a compact form the string is serialized, as in the core. */
static uint64_t serialize_size(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    const struct fault_class *fault_class = fault_class_get(na_class);
    uint64_t size = 0;

    if (fault_class->addr_serialize.addr_serialize_size != NULL)
        return fault_class->addr_serialize.addr_serialize_size(fault_class->inner_class, addr);
    (void) fault_class->inner->addr_to_string(fault_class->inner_class, addr, NULL, &size);
    return size;
}

static int32_t serialize(struct na_plugin_class *na_class, struct na_plugin_addr *addr, void *buf,
                         uint64_t size)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->addr_serialize.addr_serialize != NULL)
        return fault_class->addr_serialize.addr_serialize(fault_class->inner_class, addr, buf,
                                                          size);
    return fault_class->inner->addr_to_string(fault_class->inner_class, addr, buf, &size);
}

static int32_t deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                           uint64_t flags, struct na_plugin_addr **addr_p)
{
    const struct fault_class *fault_class = fault_class_get(na_class);

    if (fault_class->addr_serialize.addr_deserialize != NULL)
        return fault_class->addr_serialize.addr_deserialize(fault_class->inner_class, buf, size,
                                                            flags, addr_p);
    if (memchr(buf, '\0', (size_t) size) == NULL)
        return NA_PLUGIN_PROTOCOL_ERROR;
    return fault_class->inner->addr_lookup(fault_class->inner_class, buf, addr_p);
}
