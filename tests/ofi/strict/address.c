/* SPDX-License-Identifier: BSD-3-Clause */
/* The address vector, and the detection of peers that do not exist any more, as opposed to slow
 * ones. */

#include "strict.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A peer that sent nothing for this time is checked. */
#define STRICT_SILENT_NS UINT64_C(300000000)

/* How long a connection attempt on this machine may take. Without an answer the peer counts as
 * there. */
#define STRICT_REFUSAL_MS 20

static const uint8_t strict_mark[2] = {0x5a, 0xa5};

static int strict_av_insert(struct fid_av *fid, const void *names, size_t count,
                            fi_addr_t *addresses, uint64_t flags, void *context);
static int strict_av_remove(struct fid_av *fid, fi_addr_t *addresses, size_t count, uint64_t flags);
static int strict_av_lookup(struct fid_av *fid, fi_addr_t address, void *name, size_t *size);
static int strict_av_close(struct fid *fid);
static void strict_peer_forget(struct strict_av *av, struct strict_peer *peer);
static struct strict_peer *strict_peer_add(struct strict_av *av, const uint8_t *name,
                                           size_t *place_p);
static bool strict_name_take(const uint8_t *name, struct sockaddr_in *address);
static int strict_connect_error(int fd, int error);

static struct fi_ops strict_av_fid_ops = {
    .size = sizeof(struct fi_ops),
    .close = strict_av_close,
};

static struct fi_ops_av strict_av_ops = {
    .size = sizeof(struct fi_ops_av),
    .insert = strict_av_insert,
    .remove = strict_av_remove,
    .lookup = strict_av_lookup,
};

int strict_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **av_p,
                   void *context)
{
    struct strict_domain *domain = (struct strict_domain *) (void *) fid;
    struct fi_av_attr below = {.type = FI_AV_TABLE, .count = attr->count};
    struct strict_av *av = strict_alloc(sizeof(*av));
    int ret = fi_av_open(domain->below, &below, &av->below, NULL);

    if (ret != 0) {
        free(av);
        return ret;
    }
    av->domain = domain;
    av->fid =
        (struct fid_av){.fid = {FI_CLASS_AV, context, &strict_av_fid_ops}, .ops = &strict_av_ops};
    domain->objects++;
    *av_p = &av->fid;
    return 0;
}

/* `socket` is a struct sockaddr_in. */
void strict_name_fill(uint8_t *name, const void *socket)
{
    const struct sockaddr_in *address = socket;

    memcpy(name, &address->sin_addr.s_addr, 4);
    memcpy(name + 4, &address->sin_port, 2);
    memcpy(name + 6, strict_mark, sizeof(strict_mark));
}

/* Returns the peer of a user's operation; an invalid address ends the process. */
struct strict_peer *strict_peer(struct strict_av *av, fi_addr_t address, const char *function)
{
    if (address >= av->count || av->peers[address] == NULL || !av->peers[address]->is_user ||
        av->peers[address]->is_removed)
        strict_die("%s: %llu is no address of the vector, or not any more", function,
                   (unsigned long long) address);
    return av->peers[address];
}

/* Returns the peer for an answer to an endpoint that the user may not have inserted; NULL for an
 * invalid name. */
struct strict_peer *strict_peer_named(struct strict_av *av, const uint8_t *name)
{
    size_t place;

    for (size_t i = 0; i < av->count; i++)
        if (av->peers[i] != NULL && !av->peers[i]->is_user &&
            memcmp(av->peers[i]->name, name, STRICT_NAME_SIZE) == 0)
            return av->peers[i];
    return strict_peer_add(av, name, &place);
}

/* Checks that something listens at the peer's address. A device reports an error otherwise, whereas
 * the layer below retries for ever. */
bool strict_peer_is_there(struct strict_peer *peer, uint64_t now)
{
    struct sockaddr_in address;
    bool is_refused;
    int fd;

    if (now - peer->heard < STRICT_SILENT_NS)
        return true;
    peer->heard = now;
    /* cannot fail, for the name was checked when the peer was added */
    (void) strict_name_take(peer->name, &address);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return true;
    is_refused = connect(fd, (const struct sockaddr *) &address, sizeof(address)) != 0 &&
                 strict_connect_error(fd, errno) == ECONNREFUSED;
    (void) close(fd);
    return !is_refused;
}

/* A non-blocking socket gets the refusal only after connect() has returned. */
static int strict_connect_error(int fd, int error)
{
    struct pollfd waited = {.fd = fd, .events = POLLOUT};
    socklen_t size = sizeof(error);

    if (error != EINPROGRESS || poll(&waited, 1, STRICT_REFUSAL_MS) != 1)
        return error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* Called when an operation with the peer has ended. */
void strict_peer_release(struct strict_av *av, struct strict_peer *peer)
{
    peer->uses--;
    strict_peer_forget(av, peer);
}

/* Frees a removed peer when all operations with it have ended. */
static void strict_peer_forget(struct strict_av *av, struct strict_peer *peer)
{
    if (!peer->is_removed || peer->uses != 0)
        return;
    for (size_t i = 0; i < av->count; i++)
        if (av->peers[i] == peer)
            av->peers[i] = NULL;
    (void) fi_av_remove(av->below, &peer->below, 1, 0);
    free(peer);
}

static int strict_av_insert(struct fid_av *fid, const void *names, size_t count,
                            fi_addr_t *addresses, uint64_t flags, void *context)
{
    struct strict_av *av = (struct strict_av *) (void *) fid;
    int inserted = 0;

    (void) flags;
    (void) context;
    strict_enter(av->domain, "fi_av_insert");
    for (size_t i = 0; i < count; i++) {
        const uint8_t *name = (const uint8_t *) names + i * STRICT_NAME_SIZE;
        size_t place = 0;
        struct strict_peer *peer = strict_peer_add(av, name, &place);

        addresses[i] = peer != NULL ? place : FI_ADDR_NOTAVAIL;
        if (peer != NULL)
            peer->is_user = true;
        inserted += peer != NULL;
    }
    strict_leave(av->domain);
    return inserted;
}

static int strict_av_remove(struct fid_av *fid, fi_addr_t *addresses, size_t count, uint64_t flags)
{
    struct strict_av *av = (struct strict_av *) (void *) fid;

    (void) flags;
    strict_enter(av->domain, "fi_av_remove");
    for (size_t i = 0; i < count; i++) {
        struct strict_peer *peer = strict_peer(av, addresses[i], "fi_av_remove");

        peer->is_removed = true;
        strict_peer_forget(av, peer);
    }
    strict_leave(av->domain);
    return 0;
}

static int strict_av_lookup(struct fid_av *fid, fi_addr_t address, void *name, size_t *size)
{
    struct strict_av *av = (struct strict_av *) (void *) fid;
    const struct strict_peer *peer = strict_peer(av, address, "fi_av_lookup");

    memcpy(name, peer->name, *size < STRICT_NAME_SIZE ? *size : STRICT_NAME_SIZE);
    *size = STRICT_NAME_SIZE;
    return 0;
}

static int strict_av_close(struct fid *fid)
{
    struct strict_av *av = (struct strict_av *) (void *) fid;

    strict_enter(av->domain, "fi_close(av)");
    (void) fi_close(&av->below->fid);
    for (size_t i = 0; i < av->count; i++)
        free(av->peers[i]);
    free(av->peers);
    av->domain->objects--;
    strict_leave(av->domain);
    free(av);
    return 0;
}

/* Returns NULL when the name is not that of an endpoint. */
static struct strict_peer *strict_peer_add(struct strict_av *av, const uint8_t *name,
                                           size_t *place_p)
{
    struct sockaddr_in address;
    struct strict_peer *peer;
    size_t place = 0;

    if (!strict_name_take(name, &address))
        return NULL;
    while (place < av->count && av->peers[place] != NULL)
        place++;
    if (place == av->count) {
        av->peers = realloc(av->peers, (av->count + 1) * sizeof(struct strict_peer *));
        if (av->peers == NULL)
            strict_die("no memory");
        av->count++;
    }
    peer = strict_alloc(sizeof(*peer));
    av->peers[place] = NULL;
    if (fi_av_insert(av->below, &address, 1, &peer->below, 0, NULL) != 1) {
        free(peer);
        return NULL;
    }
    memcpy(peer->name, name, STRICT_NAME_SIZE);
    peer->end = &peer->first;
    peer->heard = strict_now();
    av->peers[place] = peer;
    *place_p = place;
    return peer;
}

static bool strict_name_take(const uint8_t *name, struct sockaddr_in *address)
{
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    memcpy(&address->sin_addr.s_addr, name, 4);
    memcpy(&address->sin_port, name + 4, 2);
    return memcmp(name + 6, strict_mark, sizeof(strict_mark)) == 0;
}
