/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of addresses: resolving, formatting and hashing them. */

#include "tcp.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>

#define PREFIX "tcp://"
#define BLOCK  12u

static uint32_t rotate(uint32_t value, unsigned bits);
static uint32_t word(const uint8_t *bytes, size_t size, size_t at);
static void mix(uint32_t state[3]);
static uint32_t finish(uint32_t state[3]);

/* Parses "tcp://host:port", for IPv6 "tcp://[host]:port". Resolving a host's name may block. */
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

/* The hash by which messages name their sender's listener: Bob Jenkins' lookup3, little-endian. */
uint32_t tcp_hash(const char *name)
{
    const uint8_t *bytes = (const uint8_t *) name;
    size_t size = strlen(name);
    uint32_t start = 0xdeadbeefu + (uint32_t) size + WIRE_HASH_SEED;
    uint32_t state[3] = {start, start, start};

    for (; size > BLOCK; size -= BLOCK, bytes += BLOCK) {
        for (size_t i = 0; i < 3; i++)
            state[i] += word(bytes, size, 4 * i);
        mix(state);
    }
    if (size == 0)
        return state[2];
    for (size_t i = 0; i < 3; i++)
        state[i] += word(bytes, size, 4 * i);
    return finish(state);
}

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* Returns four bytes, with zeroes past the end. */
static uint32_t word(const uint8_t *bytes, size_t size, size_t at)
{
    uint32_t value = 0;

    for (size_t i = 0; i < 4 && at + i < size; i++)
        value |= (uint32_t) bytes[at + i] << (8 * i);
    return value;
}

static void mix(uint32_t state[3])
{
    static const unsigned bits[6] = {4, 6, 8, 16, 19, 4};

    for (size_t i = 0; i < 6; i++) {
        uint32_t *a = &state[i % 3], *b = &state[(i + 1) % 3], *c = &state[(i + 2) % 3];

        *a -= *c;
        *a ^= rotate(*c, bits[i]);
        *c += *b;
    }
}

static uint32_t finish(uint32_t state[3])
{
    static const unsigned bits[7] = {14, 11, 25, 16, 4, 14, 24};

    for (size_t i = 0; i < 7; i++) {
        uint32_t *c = &state[(i + 2) % 3], *b = &state[(i + 1) % 3];

        *c ^= *b;
        *c -= rotate(*b, bits[i]);
    }
    return state[2];
}
