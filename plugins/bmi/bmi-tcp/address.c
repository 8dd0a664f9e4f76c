/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: peers that were looked up, or that connected. Messages carry the hash of the name at
 * which their sender listens, so that its connection to us serves both directions.
 */

#include "tcp.h"

#include <stdlib.h>

static int address_complete(struct tcp_address *address, const char *name);
static void address_operations_fail(struct tcp_operations *list, int error);

int BMI_addr_lookup(BMI_addr_t *new_addr, const char *id_string)
{
    struct tcp_instance *instance = tcp_current();
    struct tcp_address *address, *found = NULL;
    uint32_t hash;
    int ret;

    *new_addr = 0;
    if (!instance->is_open || strlen(id_string) >= BMI_MAX_ADDR_LEN)
        return -BMI_EINVAL;
    hash = tcp_hash(id_string);
    TAILQ_FOREACH (address, &instance->addresses[hash % TCP_BUCKETS], link) {
        if (address->hash != hash)
            continue;
        if (strcmp(address->name, id_string) == 0 || address->name[0] == '\0')
            found = address;
    }
    if (found == NULL)
        found = tcp_address_create(instance, hash);
    if (found == NULL)
        return -BMI_ENOMEM;
    if (found->name[0] == '\0') {
        ret = address_complete(found, id_string);
        if (ret != 0) {
            tcp_address_release(found);
            return ret;
        }
    }
    found->is_looked_up = true;
    tcp_address_keep(found);
    *new_addr = found->id;
    return 0;
}

const char *BMI_addr_rev_lookup_unexpected(BMI_addr_t addr)
{
    const struct tcp_instance *instance = tcp_current();
    const struct tcp_address *address = tcp_table_find(&instance->address_table, addr);

    if (address == NULL)
        return "unknown";
    return address->peer[0] != '\0' ? address->peer : address->name;
}

struct tcp_address *tcp_address_find(const struct tcp_instance *instance, uint32_t hash)
{
    struct tcp_address *address;

    TAILQ_FOREACH (address, &instance->addresses[hash % TCP_BUCKETS], link)
        if (address->hash == hash)
            return address;
    return NULL;
}

/* NULL without memory. */
struct tcp_address *tcp_address_create(struct tcp_instance *instance, uint32_t hash)
{
    struct tcp_address *address = calloc(1, sizeof(*address));

    if (address == NULL)
        return NULL;
    address->id = tcp_table_add(&instance->address_table, address);
    if (address->id == 0) {
        free(address);
        return NULL;
    }
    address->instance = instance;
    address->hash = hash;
    TAILQ_INIT(&address->connections);
    TAILQ_INIT(&address->sends);
    TAILQ_INIT(&address->receives);
    TAILQ_INIT(&address->early);
    TAILQ_INSERT_TAIL(&instance->addresses[hash % TCP_BUCKETS], address, link);
    return address;
}

/* Fails the operations of an address whose connection broke. `error` is negative. */
void tcp_address_fail(struct tcp_address *address, int error)
{
    address_operations_fail(&address->sends, error);
    address_operations_fail(&address->receives, error);
    tcp_early_free(address);
    if (address->notice == NULL && !address->is_dropped)
        tcp_notice_add(address, error);
}

void tcp_address_keep(struct tcp_address *address)
{
    if (!address->is_dropped)
        return;
    address->is_dropped = false;
    TAILQ_REMOVE(&address->instance->dropped, address, dropped_link);
    address->instance->dropped_count--;
}

/* Frees the address if it is not needed any more. */
void tcp_address_release(struct tcp_address *address)
{
    if (address->references != 0 || address->is_looked_up || address->notice != NULL ||
        address->operations != 0 || address->unexpected != 0 || !TAILQ_EMPTY(&address->connections))
        return;
    tcp_address_destroy(address);
}

/* The address must have no connections and operations. */
void tcp_address_destroy(struct tcp_address *address)
{
    struct tcp_instance *instance = address->instance;

    tcp_early_free(address);
    tcp_address_keep(address);
    tcp_notice_drop(address);
    tcp_table_remove(&instance->address_table, address->id);
    TAILQ_REMOVE(&instance->addresses[address->hash % TCP_BUCKETS], address, link);
    free(address);
}

static int address_complete(struct tcp_address *address, const char *name)
{
    int ret = tcp_place_parse(name, &address->place, &address->place_size);

    if (ret == 0)
        memcpy(address->name, name, strlen(name) + 1);
    else
        address->place_size = 0;
    return ret;
}

static void address_operations_fail(struct tcp_operations *list, int error)
{
    struct tcp_operation *operation;

    while ((operation = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, operation, link);
        tcp_operation_complete(operation, error);
    }
}
