/* SPDX-License-Identifier: BSD-3-Clause */
/* Target processes of the soak: the origin starts, kills and restarts them. */
#include "soak.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define END_MS 30000

bool soak_peer_start(struct soak_peer *peer, const struct soak_options *options)
{
    const bool is_fault = options->target_faults[0] != '\0';
    char init[sizeof(options->init) + sizeof(options->target_faults) + 16];
    char generation[32], places[32];
    /* The address of an endpoint is also the init string that opens it there. */
    const char *plain = peer->address[0] != '\0' ? peer->address : options->init;

    (void) snprintf(init, sizeof(init), "%s%s%s%s%s", is_fault ? "fault+" : "", plain,
                    is_fault && strstr(plain, "://") == NULL ? "://" : "", is_fault ? "?" : "",
                    options->target_faults);
    (void) snprintf(generation, sizeof(generation), "%" PRIu64, ++peer->generation);
    (void) snprintf(places, sizeof(places), "%u", options->window);
    peer->state = SOAK_PEER_STARTING;
    peer->line_used = 0;
    peer->is_running =
        child_start(&peer->child, (const char *const[]){"target", init, generation, places, NULL});
    return peer->is_running;
}

bool soak_peer_poll(struct soak_peer *peer, const struct soak_options *options)
{
    struct pollfd poller = {.fd = peer->child.from, .events = POLLIN};

    while (peer->line_used + 1 < sizeof(peer->line) && poll(&poller, 1, 0) > 0) {
        char letter;

        if (read(peer->child.from, &letter, 1) != 1) {
            /* The new process could not open the address, which the system has not released yet. */
            if (child_collect(&peer->child, END_MS) != 1)
                peer->crashes++;
            peer->generation--;
            (void) usleep(20000);
            (void) soak_peer_start(peer, options);
            return false;
        }
        if (letter != '\n') {
            peer->line[peer->line_used++] = letter;
            continue;
        }
        peer->line[peer->line_used] = '\0';
        memcpy(peer->address, peer->line, sizeof(peer->address));
        return true;
    }
    return false;
}

uint64_t soak_peer_digest(struct soak_peer *peer, uint64_t generation, uint64_t offset,
                          uint64_t size)
{
    if (peer->expected == NULL && (peer->expected = malloc(SOAK_SOURCE)) == NULL)
        return 0;
    if (peer->expected_generation != generation)
        soak_fill_source(peer->expected, generation);
    peer->expected_generation = generation;
    return soak_digest(peer->expected + offset, size);
}

bool soak_peer_restart(struct soak_peer *peer, const struct soak_options *options)
{
    if (soak_peer_has_died(peer))
        peer->crashes++;
    child_kill(&peer->child);
    (void) child_collect(&peer->child, END_MS);
    return soak_peer_start(peer, options);
}

bool soak_peer_has_died(const struct soak_peer *peer)
{
    siginfo_t info = {0};

    return peer->is_running &&
           waitid(P_PID, (id_t) peer->child.pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == peer->child.pid;
}

bool soak_peer_end(struct soak_peer *peer)
{
    free(peer->expected);
    peer->expected = NULL;
    if (!peer->is_running)
        return true;
    peer->is_running = false;
    return child_collect(&peer->child, END_MS) == 0;
}
