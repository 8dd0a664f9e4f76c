/* SPDX-License-Identifier: BSD-3-Clause */
/* The test's side of hostile_peer.h: starts the processes of hostile_peer.c and sends them
 * commands. */
#include "hostile_peer.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define WAIT_MS 120000

static void ask(struct hostile_peer *peer, const char *line, char *answer, size_t size)
{
    assert_true(child_tell(&peer->child, line));
    assert_true(child_read_line(&peer->child, answer, size, WAIT_MS));
}

void hostile_peer_start(struct hostile_peer *peer, const struct hostile_role *role)
{
    char port[16], number[16];
    const char *const arguments[] = {port,
                                     number,
                                     role->key != NULL ? role->key : "",
                                     role->encrypts ? "1" : "0",
                                     role->has_grants ? "1" : "0",
                                     NULL};

    (void) snprintf(port, sizeof(port), "%u", role->port);
    (void) snprintf(number, sizeof(number), "%u", role->number);
    assert_true(child_start(&peer->child, arguments));
    peer->is_started = true;
    assert_true(child_read_line(&peer->child, peer->address, sizeof(peer->address), WAIT_MS));
}

void hostile_peer_quit(struct hostile_peer *peer)
{
    assert_true(child_tell(&peer->child, "quit"));
    peer->is_started = false;
    assert_int_equal(child_collect(&peer->child, WAIT_MS), 0);
}

void hostile_peer_kill(struct hostile_peer *peer)
{
    if (!peer->is_started)
        return;
    peer->is_started = false;
    child_kill(&peer->child);
    (void) child_collect(&peer->child, WAIT_MS);
}

void hostile_peer_renew(struct hostile_peer *peer)
{
    ask(peer, "renew", peer->address, sizeof(peer->address));
}

bool hostile_peer_call(struct hostile_peer *peer, const struct hostile_peer *called, bool is_new)
{
    char line[300], answer[64];

    (void) snprintf(line, sizeof(line), "%s%s", is_new ? "+" : "", called->address);
    ask(peer, line, answer, sizeof(answer));
    return strcmp(answer, "HG_SUCCESS") == 0;
}

void hostile_peer_expose(struct hostile_peer *peer, char *descriptor, size_t size)
{
    ask(peer, "expose", descriptor, size);
    assert_true(strlen(descriptor) != 0);
}

void hostile_peer_grant(struct hostile_peer *peer, const struct hostile_peer *to)
{
    char line[300], answer[64];

    (void) snprintf(line, sizeof(line), "grant %s", to->address);
    ask(peer, line, answer, sizeof(answer));
    assert_string_equal(answer, "HG_SUCCESS");
}

void hostile_peer_take(struct hostile_peer *peer, const char *descriptor,
                       const struct hostile_peer *from, char *result, size_t size)
{
    char line[2560];

    (void) snprintf(line, sizeof(line), "take %s %s", descriptor, from->address);
    ask(peer, line, result, size);
}

void hostile_peer_tally(struct hostile_peer *peer, struct hostile_tally *tally)
{
    char answer[128];

    ask(peer, "tally", answer, sizeof(answer));
    assert_int_equal(sscanf(answer, "%llu %llu %llu %llu", &tally->refused, &tally->handled,
                            &tally->wrong, &tally->twice),
                     4);
}
