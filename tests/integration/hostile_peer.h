/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of the test with a hostile proxy, and the commands that the test sends them. */
#ifndef TESTS_INTEGRATION_HOSTILE_PEER_H
#define TESTS_INTEGRATION_HOSTILE_PEER_H

#include "child.h"

#include <stdint.h>

#define HOSTILE_PLAINTEXT "nobody else reads this"

/* What a process has counted. */
struct hostile_tally {
    unsigned long long refused; /* messages that its transport refused: key, malformed, stale */
    unsigned long long handled; /* requests whose handler ran */
    unsigned long long wrong;   /* bytes in requests, responses and bulk data that nobody sent */
    unsigned long long twice;   /* requests that were handled again */
};

/* How a process is started. */
struct hostile_role {
    uint16_t port; /* port of the proxy; 0: connections do not go through the proxy */
    uint32_t number;
    const char *key; /* NULL: no key */
    bool encrypts;
    bool has_grants; /* its memory may be used only in sessions to which it was granted
                      * (mem_per_session) */
};

struct hostile_peer {
    struct child child;
    bool is_started;
    char address[256];
};

/* The test's side: each starts a process, or sends it a command and waits for the answer. A failure
 * fails the test. */
void hostile_peer_start(struct hostile_peer *peer, const struct hostile_role *role);
void hostile_peer_quit(struct hostile_peer *peer);

/* Kills the process at any time; no effect if there is none. */
void hostile_peer_kill(struct hostile_peer *peer);

/* Has it close its class, and open another one at another address. */
void hostile_peer_renew(struct hostile_peer *peer);

/* Has it call once, with `is_new` after another lookup of the address. Returns whether a response
 * came. */
bool hostile_peer_call(struct hostile_peer *peer, const struct hostile_peer *called, bool is_new);
/* Has it expose memory, the same each time, and returns the descriptor as text. */
void hostile_peer_expose(struct hostile_peer *peer, char *descriptor, size_t size);

/* Has it grant the exposed memory to a peer. */
void hostile_peer_grant(struct hostile_peer *peer, const struct hostile_peer *to);

/* Has it pull the memory of `from` by a descriptor; `result` gets the name of the status. */
void hostile_peer_take(struct hostile_peer *peer, const char *descriptor,
                       const struct hostile_peer *from, char *result, size_t size);
void hostile_peer_tally(struct hostile_peer *peer, struct hostile_tally *tally);

/* The main function of such a process, when the program has arguments. */
int hostile_peer_main(int argc, char **argv);

#endif
