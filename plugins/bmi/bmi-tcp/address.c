/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses: the peers that were looked up, or that connected. A listener is known by the hash of
 * its name, which its messages carry, so that its connection to us serves both directions.
 */

#include "tcp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define PREFIX "tcp://"

/* Addresses without references whose connections are kept, for that they may be needed again. */
#define DROPPED_MAX 64u

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
    for (address = TAILQ_FIRST(&instance->addresses[hash % TCP_BUCKETS]); address != NULL;
         address = TAILQ_NEXT(address, link)) {
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

/* "tcp://host:port", also "tcp://[host]:port" for IPv6; looking up a name may take time. */
int tcp_place_parse(const char *name, struct sockaddr_storage *place, socklen_t *size)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list;
    char host[BMI_MAX_ADDR_LEN];
    const char *start = name + strlen(PREFIX), *port;
    size_t length;
    char *end;

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return -BMI_EINVAL;
    port = strrchr(start, ':');
    if (port == NULL || port == start || port[1] < '0' || port[1] > '9' ||
        strtoul(port + 1, &end, 10) > UINT16_MAX || *end != '\0')
        return -BMI_EINVAL;
    length = (size_t) (port - start);
    if (start[0] == '[' && length > 2 && port[-1] == ']') {
        start++;
        length -= 2;
    }
    if (length >= sizeof(host))
        return -BMI_EINVAL;
    memcpy(host, start, length);
    host[length] = '\0';
    if (getaddrinfo(host, port + 1, &hints, &list) != 0)
        return -BMI_EINVAL;
    memcpy(place, list->ai_addr, list->ai_addrlen);
    *size = list->ai_addrlen;
    freeaddrinfo(list);
    return 0;
}

void tcp_place_format(const struct sockaddr_storage *place, char *text, size_t size)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    bool is_v6 = place->ss_family == AF_INET6;
    socklen_t length = is_v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    if (getnameinfo((const struct sockaddr *) place, length, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void) snprintf(text, size, "unknown");
        return;
    }
    (void) snprintf(text, size, is_v6 ? PREFIX "[%.100s]:%.10s" : PREFIX "%.100s:%.10s", host,
                    port);
}

struct tcp_address *tcp_address_find(const struct tcp_instance *instance, uint32_t hash)
{
    struct tcp_address *address;

    for (address = TAILQ_FIRST(&instance->addresses[hash % TCP_BUCKETS]); address != NULL;
         address = TAILQ_NEXT(address, link))
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

/* Its connection broke: what waits for it ends. `error` is negative. */
void tcp_address_fail(struct tcp_address *address, int error)
{
    address_operations_fail(&address->sends, error);
    address_operations_fail(&address->receives, error);
    tcp_early_free(address);
    if (address->notice == NULL && !address->is_dropped)
        tcp_notice_add(address, error);
}

/* The last reference went: nobody is told of its end. Of many the oldest are disconnected. */
void tcp_address_drop(struct tcp_address *address)
{
    struct tcp_instance *instance = address->instance;

    address->is_looked_up = false;
    /* What becomes of an attempt is nobody's business any more, nor of who comes next. */
    address->references++;
    if (address->sender != NULL && address->sender->is_connecting)
        tcp_connection_break(address->sender, -BMI_ECANCEL);
    address->references--;
    tcp_notice_drop(address);
    if (address->is_dropped)
        return;
    address->is_dropped = true;
    TAILQ_INSERT_TAIL(&instance->dropped, address, dropped_link);
    if (++instance->dropped_count <= DROPPED_MAX)
        return;
    address = TAILQ_FIRST(&instance->dropped);
    tcp_address_keep(address);
    tcp_address_disconnect(address);
}

void tcp_address_keep(struct tcp_address *address)
{
    if (!address->is_dropped)
        return;
    address->is_dropped = false;
    TAILQ_REMOVE(&address->instance->dropped, address, dropped_link);
    address->instance->dropped_count--;
}

/* Without a notice, and released: the caller has a reference if it goes on with the address. */
void tcp_address_disconnect(struct tcp_address *address)
{
    address->references++;
    while (!TAILQ_EMPTY(&address->connections))
        tcp_connection_break(TAILQ_FIRST(&address->connections), -BMI_ECANCEL);
    address->references--;
    tcp_notice_drop(address);
    tcp_address_release(address);
}

/* Frees it if nothing needs it any more. */
void tcp_address_release(struct tcp_address *address)
{
    if (address->references != 0 || address->is_looked_up || address->notice != NULL ||
        address->operations != 0 || address->unexpected != 0 || !TAILQ_EMPTY(&address->connections))
        return;
    tcp_address_destroy(address);
}

/* Its connections and operations are gone. */
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
