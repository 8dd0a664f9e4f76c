/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Step 3: addresses. A string names an endpoint, an object is what operations use. There is one
 * object for each name, with a count of references: comparing two is comparing pointers, and the
 * source of a message is found by the name it came from.
 */

#include "template.h"

#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t bucket_of(const char *name);

/* Takes `template+unix://name`, `unix://name`, and `name` alone. */
int32_t template_addr_lookup(struct na_plugin_class *na_class, const char *name,
                             struct na_plugin_addr **addr_p)
{
    static const char *const starts[] = {TEMPLATE_START, TEMPLATE_PROTOCOL "://"};
    struct na_plugin_addr *peer;
    const char *endpoint = name;

    for (size_t i = 0; i < 2 && endpoint == name; i++)
        if (strncmp(name, starts[i], strlen(starts[i])) == 0)
            endpoint = name + strlen(starts[i]);
    if (!template_name_is_valid(endpoint)) {
        TEMPLATE_ERROR("'%.100s' is not an address of the form %s<name>", name, TEMPLATE_START);
        return NA_PLUGIN_INVALID_ARG;
    }
    (void) pthread_mutex_lock(&na_class->lock);
    peer = template_peer_get_locked(na_class, endpoint);
    if (peer != NULL && !template_peer_lives(na_class, peer, 0)) {
        template_peer_put_locked(na_class, peer);
        (void) pthread_mutex_unlock(&na_class->lock);
        TEMPLATE_ERROR("'%s': there is no such endpoint on this machine", name);
        return NA_PLUGIN_NOENTRY;
    }
    (void) pthread_mutex_unlock(&na_class->lock);
    *addr_p = peer;
    return peer != NULL ? NA_PLUGIN_SUCCESS : NA_PLUGIN_NOMEM;
}

void template_addr_free(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    (void) pthread_mutex_lock(&na_class->lock);
    template_peer_put_locked(na_class, addr);
    (void) pthread_mutex_unlock(&na_class->lock);
}

int32_t template_addr_dup(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                          struct na_plugin_addr **addr_p)
{
    (void) pthread_mutex_lock(&na_class->lock);
    addr->references++;
    (void) pthread_mutex_unlock(&na_class->lock);
    *addr_p = addr;
    return NA_PLUGIN_SUCCESS;
}

int32_t template_addr_self(struct na_plugin_class *na_class, struct na_plugin_addr **addr_p)
{
    return template_addr_dup(na_class, na_class->self, addr_p);
}

uint32_t template_addr_is_self(struct na_plugin_class *na_class, struct na_plugin_addr *addr)
{
    return addr == na_class->self;
}

uint32_t template_addr_compare(struct na_plugin_class *na_class, struct na_plugin_addr *addr1,
                               struct na_plugin_addr *addr2)
{
    (void) na_class;
    return addr1 == addr2;
}

int32_t template_addr_to_string(struct na_plugin_class *na_class, struct na_plugin_addr *addr,
                                char *buf, uint64_t *size)
{
    const uint64_t given = *size, needed = sizeof(TEMPLATE_START) + strlen(addr->name);

    (void) na_class;
    *size = needed;
    if (buf == NULL)
        return NA_PLUGIN_SUCCESS;
    if (given < needed)
        return NA_PLUGIN_OVERFLOW;
    (void) snprintf(buf, given, "%s%s", TEMPLATE_START, addr->name);
    return NA_PLUGIN_SUCCESS;
}

bool template_name_is_valid(const char *name)
{
    const size_t length = strnlen(name, TEMPLATE_NAME_MAX + 1);

    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char) name[i]) && strchr("._-", name[i]) == NULL)
            return false;
    return length > 0 && length <= TEMPLATE_NAME_MAX;
}

/* With one more reference; NULL without memory. */
struct na_plugin_addr *template_peer_get_locked(struct na_plugin_class *na_class, const char *name)
{
    struct na_plugin_addr **bucket = &na_class->peers[bucket_of(name)], *peer;

    for (peer = *bucket; peer != NULL; peer = peer->next) {
        if (strcmp(peer->name, name) == 0) {
            peer->references++;
            return peer;
        }
    }
    peer = template_host->mem_alloc(sizeof(*peer), 0);
    if (peer == NULL)
        return NULL;
    peer->references = 1;
    (void) snprintf(peer->name, sizeof(peer->name), "%s", name);
    peer->next = *bucket;
    *bucket = peer;
    return peer;
}

void template_peer_put_locked(struct na_plugin_class *na_class, struct na_plugin_addr *peer)
{
    struct na_plugin_addr **link = &na_class->peers[bucket_of(peer->name)];

    if (--peer->references > 0)
        return;
    while (*link != peer)
        link = &(*link)->next;
    *link = peer->next;
    template_host->mem_free(peer);
}

/* The socket of a context: a zero, and `amalgam/template/<name>/<id>`. */
socklen_t template_sockaddr(struct sockaddr_un *where, const char *name, uint32_t id)
{
    int length;

    memset(where, 0, sizeof(*where));
    where->sun_family = AF_UNIX;
    length = snprintf(where->sun_path + 1, sizeof(where->sun_path) - 1, "amalgam/%s/%s/%u",
                      TEMPLATE_NAME, name, id);
    return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) length);
}

/* The other way round, for the sender of a datagram: anybody may have chosen that name. */
bool template_sockaddr_parse(const struct sockaddr_un *where, socklen_t length, char *name,
                             uint32_t *id)
{
    static const char start[] = "amalgam/" TEMPLATE_NAME "/";
    const size_t used = length - offsetof(struct sockaddr_un, sun_path) - 1;
    char text[sizeof(where->sun_path)] = "", *slash, *end;

    if (length <= offsetof(struct sockaddr_un, sun_path) + 1 || used >= sizeof(text) ||
        where->sun_path[0] != '\0')
        return false;
    memcpy(text, where->sun_path + 1, used);
    slash = strrchr(text, '/');
    if (strncmp(text, start, sizeof(start) - 1) != 0 || slash == NULL ||
        slash < text + sizeof(start) - 1 || !isdigit((unsigned char) slash[1]))
        return false;
    *slash = '\0';
    *id = (uint32_t) strtoul(slash + 1, &end, 10);
    if (*end != '\0' || !template_name_is_valid(text + sizeof(start) - 1))
        return false;
    memcpy(name, text + sizeof(start) - 1, strlen(text + sizeof(start) - 1) + 1);
    return true;
}

/* Connecting a socket of datagrams sends nothing, and fails when nobody has the name. */
bool template_peer_lives(struct na_plugin_class *na_class, const struct na_plugin_addr *peer,
                         uint32_t id)
{
    struct sockaddr_un where;
    socklen_t length = template_sockaddr(&where, peer->name, id);

    return connect(na_class->probe, (struct sockaddr *) &where, length) == 0 ||
           errno != ECONNREFUSED;
}

static uint32_t bucket_of(const char *name)
{
    uint32_t hash = 5381;

    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char) *name;
    return hash % TEMPLATE_BUCKETS;
}
