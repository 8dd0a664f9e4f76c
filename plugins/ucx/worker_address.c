/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of UCX's workers that unidentified peers sent. UCX believes every byte of one and ends
 * the process at some that are wrong, so what can be checked is checked before UCX sees it: the
 * form, which every part and length has to fit exactly, what transports say that we have, too, and
 * that TCP addresses have a route.
 * The form is that of UCX up to 1.13 and those behind it that write the same: whether the UCX at
 * hand does is found out by our own address.
 */

#include "ucx.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ADDRESS_ENTRIES 128u /* as many as UCX has room for */
#define ADDRESS_MDS     64u
#define ADDRESS_PATHS   64u
#define ADDRESS_NUMBER  1e18f /* no bandwidth and no time is more */

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

/* Of the address of a TCP device */
#define ADDRESS_TCP_LOOPBACK 0x01u
#define ADDRESS_TCP_NODE     16u /* bytes: node and network namespace */

struct cursor {
    uint8_t *at, *end;
    bool is_bad;
    bool is_second; /* form 2 */
};

/* What is said of one transport on one device. */
struct entry {
    uint16_t transport; /* a sum over its name */
    const uint8_t *device, *place;
    uint32_t device_size, place_size;
};

/* What to hold it against, or with `is_ours` what is learned from it. */
struct check {
    struct ucx_worker *ours;
    bool is_ours;
    bool is_near;
    bool is_trusted; /* by its key: as it says, but for shared memory */
    uint32_t count;
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
static uint8_t take(struct cursor *cursor);
static uint8_t *take_some(struct cursor *cursor, uint32_t size);
static uint8_t take_number(struct cursor *cursor, uint8_t mask, uint8_t *flags_p);

/* From our own what others are like; false: those of this UCX cannot be checked. */
bool ucx_address_learn(struct ucx_worker *worker)
{
    struct cursor cursor = {.at = (uint8_t *) (void *) worker->address};
    struct check check = {.ours = worker, .is_ours = true};

    cursor.end = cursor.at + worker->address_size;
    return address_walk(&cursor, &check, &worker->uuid) == NULL;
}

/*
 * NULL: UCX may see it. Else what is wrong. A transport that cannot be what it says is made one
 * that nobody has; so is shared memory unless the sender is near: of this node and user.
 */
const char *ucx_address_check(struct ucx_worker *ours, void *address, size_t size, bool is_near,
                              uint64_t *uuid_p)
{
    struct cursor cursor = {.at = address, .end = (uint8_t *) address + size};
    struct check check = {.ours = ours, .is_near = is_near};

    return address_walk(&cursor, &check, uuid_p);
}

/*
 * Of one that has our key, and is not near. Shared memory is there across network namespaces, but
 * the socket by which UCX wakes a receiver is not: each message would wait for the next time that
 * the receiver looks by itself.
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
    const uint8_t head = take(cursor);
    const uint8_t *uuid;
    uint8_t flags = head >> 4;

    cursor->is_second = (head & 0x0f) == 1;
    if (cursor->is_second)
        flags = take(cursor);
    if ((head & 0x0f) > 1 || (flags & ~ADDRESS_FLAGS) != 0 || (flags & ADDRESS_HAS_UUID) == 0)
        cursor->is_bad = true;
    uuid = take_some(cursor, sizeof(*uuid_p));
    if (uuid != NULL)
        memcpy(uuid_p, uuid, sizeof(*uuid_p));
    if ((flags & ADDRESS_HAS_CLIENT) != 0)
        (void) take_some(cursor, sizeof(uint64_t));
    if ((flags & ADDRESS_HAS_NAME) != 0)
        (void) take_some(cursor, take(cursor));
}

static const char *address_device(struct cursor *cursor, struct check *check, bool *is_last_p)
{
    struct entry entry = {0};
    uint8_t empty, flags, md;
    bool is_last_entry;

    md = take_number(cursor, cursor->is_second ? 0x7f : 0x1f, &empty);
    entry.device_size = take_number(cursor, 0x1f, &flags);
    if ((flags & ADDRESS_HAS_PATHS) != 0) {
        uint8_t paths = take(cursor);

        cursor->is_bad |= paths == 0 || paths > ADDRESS_PATHS;
    }
    if ((flags & ADDRESS_HAS_BUS) != 0)
        (void) take(cursor);
    entry.device = take_some(cursor, entry.device_size);
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
    uint8_t *sum = take_some(cursor, sizeof(entry->transport)), flags;

    if (++check->count > ADDRESS_ENTRIES || !address_numbers(cursor))
        return "a transport in its worker's address is malformed";
    entry->place_size = take_number(cursor, 0x3f, &flags);
    entry->place = take_some(cursor, entry->place_size);
    if (cursor->is_bad || (flags & ADDRESS_HAS_EP) != 0) /* an endpoint's is another thing */
        return "a transport in its worker's address is malformed";
    *is_last_p = (flags & ADDRESS_LAST) != 0;
    memcpy(&entry->transport, sum, sizeof(entry->transport));
    if (entry->transport == address_sum("tcp") && !address_tcp_is_good(entry))
        return "a TCP address of its worker is malformed";
    if (check->is_ours)
        return address_learn(check->ours, entry) ? NULL : "it has too many transports";
    if ((!check->is_near && address_is_shared(entry->transport)) ||
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
    transport->place_size = entry->place_size;
    return true;
}

/* Speed and the like: what UCX reckons with. */
static bool address_numbers(struct cursor *cursor)
{
    float numbers[3]; /* overhead, bandwidth, latency */
    const uint8_t *at;

    if (cursor->is_second) {
        at = take_some(cursor, 8);
        return at != NULL && at[1] != 0;
    }
    at = take_some(cursor, 16);
    if (at == NULL)
        return false;
    memcpy(numbers, at, sizeof(numbers));
    for (int i = 0; i < 3; i++)
        if (!isfinite(numbers[i]) || fabsf(numbers[i]) > ADDRESS_NUMBER)
            return false;
    return numbers[0] >= 0 && numbers[1] != 0 && numbers[2] >= 0;
}

/* One of a transport that we have has the lengths that ours have. UCX does not look at others. */
static bool address_is_like_ours(const struct ucx_worker *ours, const struct entry *entry)
{
    if (entry->transport == address_sum("tcp"))
        return true;
    for (uint32_t i = 0; i < ours->transport_count; i++) {
        const struct ucx_transport *transport = &ours->transports[i];

        if (transport->sum == entry->transport && transport->device_size == entry->device_size &&
            transport->place_size == entry->place_size)
            return true;
    }
    return false;
}

static bool address_tcp_is_good(const struct entry *entry)
{
    uint32_t size = 2;

    if (entry->device_size < size || entry->place_size != sizeof(in_port_t) ||
        (entry->device[0] & ~ADDRESS_TCP_LOOPBACK) != 0)
        return false;
    if (entry->device[1] != AF_INET && entry->device[1] != AF_INET6)
        return false;
    if (entry->device[0] != 0)
        size += ADDRESS_TCP_NODE;
    else
        size += entry->device[1] == AF_INET ? 4 : 16;
    return entry->device_size == size && (entry->place[0] | entry->place[1]) != 0;
}

/*
 * False for a TCP address to which connect() fails at once: UCX never closes the socket of such an
 * attempt. Connecting a datagram socket asks for the route and sends nothing.
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
        memcpy(&address.in.sin_port, entry->place, sizeof(address.in.sin_port));
        if (IN_MULTICAST(ntohl(address.in.sin_addr.s_addr)))
            return false;
    } else {
        memcpy(&address.in6.sin6_addr, entry->device + 2, sizeof(address.in6.sin6_addr));
        memcpy(&address.in6.sin6_port, entry->place, sizeof(address.in6.sin6_port));
        if (IN6_IS_ADDR_MULTICAST(&address.in6.sin6_addr))
            return false;
    }
    fd = socket(address.any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) /* no descriptor is left: nobody is let in for that */
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

/* CRC-16 in the form of CCITT. */
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

static uint8_t take(struct cursor *cursor)
{
    const uint8_t *at = take_some(cursor, 1);

    return at != NULL ? *at : 0;
}

/* NULL, and it is bad, when there are not so many. */
static uint8_t *take_some(struct cursor *cursor, uint32_t size)
{
    uint8_t *at = cursor->at;

    if (cursor->is_bad || (size_t) (cursor->end - at) < size) {
        cursor->is_bad = true;
        return NULL;
    }
    cursor->at += size;
    return at;
}

/* A number that shares its byte with flags; in form 2 the largest means that one follows. */
static uint8_t take_number(struct cursor *cursor, uint8_t mask, uint8_t *flags_p)
{
    uint8_t byte = take(cursor), number = byte & mask;

    *flags_p = byte & (uint8_t) ~mask;
    return cursor->is_second && number == mask ? take(cursor) : number;
}
