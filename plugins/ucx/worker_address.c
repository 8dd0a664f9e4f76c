/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checking the addresses of UCP workers that unidentified peers sent. UCX trusts every byte of an
 * address and aborts the process at some wrong ones. So before UCX sees it, this file checks the
 * form, in which every part and length has to fit exactly, the sizes for transports that this
 * process has as well, and that TCP addresses have a route.
 * The form is that of UCX up to 1.13, and of later ones that write the same. Whether the loaded UCX
 * does is found out from this process's own address.
 */

#include "ucx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESS_ENTRIES 128u /* the limit of UCX */
#define ADDRESS_MDS     64u
#define ADDRESS_PATHS   64u
#define ADDRESS_NUMBER  1e18f /* above any bandwidth, overhead and latency */

/* Flags of the header */
#define ADDRESS_HAS_NAME   0x01u
#define ADDRESS_HAS_UUID   0x02u
#define ADDRESS_HAS_CLIENT 0x04u
#define ADDRESS_FLAGS      0x0fu

/* Flags in the bytes that hold lengths */
#define ADDRESS_LAST      0x80u
#define ADDRESS_HAS_EP    0x40u
#define ADDRESS_HAS_PATHS 0x40u
#define ADDRESS_HAS_BUS   0x20u
#define ADDRESS_EMPTY     0x80u

/* The device address of tcp */
#define ADDRESS_TCP_LOOPBACK 0x01u
#define ADDRESS_TCP_NODE     16u /* bytes that identify node and network namespace */

struct cursor {
    uint8_t *at, *end;
    bool is_bad;
    bool is_second; /* version 2 of the form */
};

/* One transport on one device. */
struct entry {
    uint16_t transport; /* UCX's checksum of its name */
    const uint8_t *device, *iface;
    uint32_t device_size, iface_size;
};

struct check {
    struct ucx_worker *ours;
    bool is_ours;      /* the address is that of `ours`, whose transports are filled in */
    bool is_same_user; /* the sender is of this node and user */
    bool is_trusted;   /* authenticated by a key: only shared memory is removed */
    uint32_t count;    /* of entries */
};

static const char *address_walk(struct cursor *cursor, struct check *check, uint64_t *uuid_p);
static void address_head(struct cursor *cursor, uint64_t *uuid_p);
static const char *address_device(struct cursor *cursor, struct check *check, bool *is_last_p);
static const char *address_entry(struct cursor *cursor, struct check *check, struct entry *entry,
                                 bool *is_last_p);
static bool address_numbers(struct cursor *cursor);
static bool address_learn(struct ucx_worker *worker, const struct entry *entry);
static bool address_is_like_ours(const struct ucx_worker *ours, const struct entry *entry);
static bool address_tcp_is_good(const struct entry *entry);
static bool address_has_route(const struct entry *entry);
static bool address_is_shared(uint16_t transport);
static uint16_t address_sum(const char *name);
static uint8_t cursor_u8(struct cursor *cursor);
static uint8_t *cursor_bytes(struct cursor *cursor, uint32_t size);
static uint8_t cursor_bits(struct cursor *cursor, uint8_t mask, uint8_t *flags_p);

/* Learns from the worker's own address. False if the addresses of this UCX cannot be checked. */
bool ucx_address_learn(struct ucx_worker *worker)
{
    struct cursor cursor = {.at = (uint8_t *) (void *) worker->address};
    struct check check = {.ours = worker, .is_ours = true};

    cursor.end = cursor.at + worker->address_size;
    return address_walk(&cursor, &check, &worker->uuid) == NULL;
}

/*
 * Returns NULL if UCX may see the address, or what is wrong. A transport with implausible sizes is
 * given a checksum that no transport has, so that UCX ignores it; so is shared memory, unless the
 * sender is of this node and user.
 */
const char *ucx_address_check(struct ucx_worker *ours, void *address, size_t size,
                              bool is_same_user, uint64_t *uuid_p)
{
    struct cursor cursor = {.at = address, .end = (uint8_t *) address + size};
    struct check check = {.ours = ours, .is_same_user = is_same_user};

    return address_walk(&cursor, &check, uuid_p);
}

/*
 * Removes shared memory from the address of an authenticated peer that is not of this node and
 * user. Network namespaces of a node share the memory, but not the socket by which UCX wakes a
 * receiver: each message would wait until the receiver polls by itself.
 */
void ucx_address_hide_shared(struct ucx_worker *ours, void *address, size_t size)
{
    struct cursor cursor = {.at = address, .end = (uint8_t *) address + size};
    struct check check = {.ours = ours, .is_trusted = true};
    uint64_t uuid;

    (void) address_walk(&cursor, &check, &uuid);
}

static const char *address_walk(struct cursor *cursor, struct check *check, uint64_t *uuid_p)
{
    const char *complaint = NULL;
    bool is_last = false;

    *uuid_p = 0;
    address_head(cursor, uuid_p);
    if (cursor->is_bad || *uuid_p == 0)
        return "the head of its worker's address is malformed";
    while (!is_last && complaint == NULL)
        complaint = address_device(cursor, check, &is_last);
    if (complaint != NULL)
        return complaint;
    if (cursor->is_bad || cursor->at != cursor->end)
        return "its worker's address is malformed";
    return check->count == 0 ? "its worker has no address" : NULL;
}

static void address_head(struct cursor *cursor, uint64_t *uuid_p)
{
    const uint8_t head = cursor_u8(cursor);
    const uint8_t *uuid;
    uint8_t flags = head >> 4;

    cursor->is_second = (head & 0x0f) == 1;
    if (cursor->is_second)
        flags = cursor_u8(cursor);
    if ((head & 0x0f) > 1 || (flags & ~ADDRESS_FLAGS) != 0 || (flags & ADDRESS_HAS_UUID) == 0)
        cursor->is_bad = true;
    uuid = cursor_bytes(cursor, sizeof(*uuid_p));
    if (uuid != NULL)
        memcpy(uuid_p, uuid, sizeof(*uuid_p));
    if ((flags & ADDRESS_HAS_CLIENT) != 0)
        (void) cursor_bytes(cursor, sizeof(uint64_t));
    if ((flags & ADDRESS_HAS_NAME) != 0)
        (void) cursor_bytes(cursor, cursor_u8(cursor));
}

static const char *address_device(struct cursor *cursor, struct check *check, bool *is_last_p)
{
    struct entry entry = {0};
    uint8_t empty, flags, md;
    bool is_last_entry;

    md = cursor_bits(cursor, cursor->is_second ? 0x7f : 0x1f, &empty);
    entry.device_size = cursor_bits(cursor, 0x1f, &flags);
    if ((flags & ADDRESS_HAS_PATHS) != 0) {
        uint8_t paths = cursor_u8(cursor);

        cursor->is_bad |= paths == 0 || paths > ADDRESS_PATHS;
    }
    if ((flags & ADDRESS_HAS_BUS) != 0)
        (void) cursor_u8(cursor);
    entry.device = cursor_bytes(cursor, entry.device_size);
    *is_last_p = (flags & ADDRESS_LAST) != 0;
    is_last_entry = (empty & ADDRESS_EMPTY) != 0;
    if (cursor->is_bad || md >= ADDRESS_MDS)
        return "a device in its worker's address is malformed";
    while (!is_last_entry) {
        const char *complaint = address_entry(cursor, check, &entry, &is_last_entry);

        if (complaint != NULL)
            return complaint;
    }
    return NULL;
}

static const char *address_entry(struct cursor *cursor, struct check *check, struct entry *entry,
                                 bool *is_last_p)
{
    uint8_t *sum = cursor_bytes(cursor, sizeof(entry->transport)), flags;

    if (++check->count > ADDRESS_ENTRIES || !address_numbers(cursor))
        return "a transport in its worker's address is malformed";
    entry->iface_size = cursor_bits(cursor, 0x3f, &flags);
    entry->iface = cursor_bytes(cursor, entry->iface_size);
    if (cursor->is_bad || (flags & ADDRESS_HAS_EP) != 0) /* only in addresses of endpoints */
        return "a transport in its worker's address is malformed";
    *is_last_p = (flags & ADDRESS_LAST) != 0;
    memcpy(&entry->transport, sum, sizeof(entry->transport));
    if (entry->transport == address_sum("tcp") && !address_tcp_is_good(entry))
        return "a TCP address of its worker is malformed";
    if (check->is_ours)
        return address_learn(check->ours, entry) ? NULL : "it has too many transports";
    if ((!check->is_same_user && address_is_shared(entry->transport)) ||
        (!check->is_trusted &&
         (!address_is_like_ours(check->ours, entry) || !address_has_route(entry))))
        memset(sum, 0, sizeof(entry->transport));
    return NULL;
}

static bool address_learn(struct ucx_worker *worker, const struct entry *entry)
{
    struct ucx_transport *transport = &worker->transports[worker->transport_count];

    if (worker->transport_count == UCX_TRANSPORTS_MAX)
        return false;
    worker->transport_count++;
    worker->tcp_count += entry->transport == address_sum("tcp");
    transport->sum = entry->transport;
    transport->device_size = entry->device_size;
    transport->iface_size = entry->iface_size;
    return true;
}

/* The performance attributes of an interface, by which UCX chooses lanes. */
static bool address_numbers(struct cursor *cursor)
{
    float numbers[3]; /* overhead, bandwidth, latency */
    const uint8_t *at;

    if (cursor->is_second) {
        at = cursor_bytes(cursor, 8);
        return at != NULL && at[1] != 0;
    }
    at = cursor_bytes(cursor, 16);
    if (at == NULL)
        return false;
    memcpy(numbers, at, sizeof(numbers));
    for (int i = 0; i < 3; i++)
        if (!isfinite(numbers[i]) || fabsf(numbers[i]) > ADDRESS_NUMBER)
            return false;
    return numbers[0] >= 0 && numbers[1] != 0 && numbers[2] >= 0;
}

/* Whether this worker has a transport with that checksum and sizes. UCX ignores unknown ones. */
static bool address_is_like_ours(const struct ucx_worker *ours, const struct entry *entry)
{
    if (entry->transport == address_sum("tcp"))
        return true;
    for (uint32_t i = 0; i < ours->transport_count; i++) {
        const struct ucx_transport *transport = &ours->transports[i];

        if (transport->sum == entry->transport && transport->device_size == entry->device_size &&
            transport->iface_size == entry->iface_size)
            return true;
    }
    return false;
}

static bool address_tcp_is_good(const struct entry *entry)
{
    uint32_t size = 2;

    if (entry->device_size < size || entry->iface_size != sizeof(in_port_t) ||
        (entry->device[0] & ~ADDRESS_TCP_LOOPBACK) != 0)
        return false;
    if (entry->device[1] != AF_INET && entry->device[1] != AF_INET6)
        return false;
    if (entry->device[0] != 0)
        size += ADDRESS_TCP_NODE;
    else
        size += entry->device[1] == AF_INET ? 4 : 16;
    return entry->device_size == size && (entry->iface[0] | entry->iface[1]) != 0;
}

/*
 * False for a TCP address to which connect() fails at once: UCX never closes the socket of such an
 * attempt. Connecting a datagram socket looks up the route and sends nothing.
 */
static bool address_has_route(const struct entry *entry)
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address = {.any.sa_family = AF_UNSPEC};
    bool is_good;
    int fd;

    if (entry->transport != address_sum("tcp") || entry->device[0] == ADDRESS_TCP_LOOPBACK)
        return true;
    address.any.sa_family = entry->device[1];
    if (address.any.sa_family == AF_INET) {
        memcpy(&address.in.sin_addr, entry->device + 2, sizeof(address.in.sin_addr));
        memcpy(&address.in.sin_port, entry->iface, sizeof(address.in.sin_port));
        if (IN_MULTICAST(ntohl(address.in.sin_addr.s_addr)))
            return false;
    } else {
        memcpy(&address.in6.sin6_addr, entry->device + 2, sizeof(address.in6.sin6_addr));
        memcpy(&address.in6.sin6_port, entry->iface, sizeof(address.in6.sin6_port));
        if (IN6_IS_ADDR_MULTICAST(&address.in6.sin6_addr))
            return false;
    }
    fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) /* without a descriptor the peer is refused elsewhere (descriptors.c) */
        return errno != EAFNOSUPPORT;
    is_good = connect(fd, &address.any, sizeof(address)) == 0;
    (void) close(fd);
    return is_good;
}

static bool address_is_shared(uint16_t transport)
{
    static const char *const names[] = {"posix", "sysv", "xpmem", "cma", "knem", "self"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (transport == address_sum(names[i]))
            return true;
    return false;
}

/* UCX's checksum of a transport's name: CRC-16-CCITT. */
static uint16_t address_sum(const char *name)
{
    uint32_t sum = UINT16_MAX;

    for (; *name != '\0'; name++) {
        sum ^= (uint8_t) *name;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum & 1) != 0 ? sum >> 1 ^ 0x8408u : sum >> 1;
    }
    return (uint16_t) ~sum;
}

static uint8_t cursor_u8(struct cursor *cursor)
{
    const uint8_t *at = cursor_bytes(cursor, 1);

    return at != NULL ? *at : 0;
}

/* Returns the next `size` bytes; NULL, and is_bad is set, if there are fewer. */
static uint8_t *cursor_bytes(struct cursor *cursor, uint32_t size)
{
    uint8_t *at = cursor->at;

    if (cursor->is_bad || (size_t) (cursor->end - at) < size) {
        cursor->is_bad = true;
        return NULL;
    }
    cursor->at += size;
    return at;
}

/* A number that shares its byte with flags; in version 2 its maximum means that a byte follows. */
static uint8_t cursor_bits(struct cursor *cursor, uint8_t mask, uint8_t *flags_p)
{
    uint8_t byte = cursor_u8(cursor), number = byte & mask;

    *flags_p = byte & (uint8_t) ~mask;
    return cursor->is_second && number == mask ? cursor_u8(cursor) : number;
}
