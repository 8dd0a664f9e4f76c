/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of the test with a hostile proxy, and what the test tells them to do. */
#ifndef TESTS_INTEGRATION_HOSTILE_PEER_H
#define TESTS_INTEGRATION_HOSTILE_PEER_H

#include "child.h"

#include <stdint.h>

#define HOSTILE_PLAINTEXT "nobody else reads this"

/* What a process has seen. */
struct hostile_tally {
    unsigned long long refused; /* by its transport: key, malformed, stale */
    unsigned long long handled; /* requests */
    unsigned long long wrong;   /* bytes in requests, responses and bulk data that nobody sent */
    unsigned long long twice;   /* requests that were handled again */
};

/* What it was started with. */
struct hostile_role {
    uint16_t port; /* of the proxy; 0: it goes without */
    uint32_t number;
    const char *key; /* NULL: it has none */
    bool encrypts;
    bool has_grants; /* its memory is reached where it was granted (mem_per_session) */
};

struct hostile_peer {
    struct child child;
    bool is_started;
    char address[256];
};

/* In the test: start one, tell it something, and wait for the answer. They fail the test. */
void hostile_peer_start(struct hostile_peer *peer, const struct hostile_role *role);
void hostile_peer_quit(struct hostile_peer *peer);

/* Whatever it does; nothing, when there is none. */
void hostile_peer_kill(struct hostile_peer *peer);

/* Closes its class, and opens another one at another address. */
void hostile_peer_renew(struct hostile_peer *peer);

/* One call; `is_new`: it looks the address up again. Whether it was answered. */
bool hostile_peer_call(struct hostile_peer *peer, const struct hostile_peer *called, bool is_new);
/* Has it expose memory, always the same one, and gets a descriptor as text. */
void hostile_peer_expose(struct hostile_peer *peer, char *descriptor, size_t size);

/* Has it grant that memory to another one. */
void hostile_peer_grant(struct hostile_peer *peer, const struct hostile_peer *to);

/* Pulls it with a descriptor from the one that exposes it; the name of what that ended with. */
void hostile_peer_take(struct hostile_peer *peer, const char *descriptor,
                       const struct hostile_peer *from, char *result, size_t size);
void hostile_peer_tally(struct hostile_peer *peer, struct hostile_tally *tally);

/* The main of such a process, when there are arguments. */
int hostile_peer_main(int argc, char **argv);

#endif
