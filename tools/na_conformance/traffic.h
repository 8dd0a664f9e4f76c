/* SPDX-License-Identifier: BSD-3-Clause */
/* An endpoint and a peer that exchange messages with verifiable content. */

#ifndef AMALGAM_CONF_TRAFFIC_H
#define AMALGAM_CONF_TRAFFIC_H

#include "na_conformance/peer.h"

#define CONF_TRAFFIC_WINDOW 64

struct conf_traffic {
    struct conf_end end;
    struct conf_peer peer;
    uint32_t buffer_flags; /* not 0: the plugin allocates the buffers */
    struct conf_op *echo_op;
    /* Unexpected receives, a ring in posting order. */
    struct conf_op *receives[CONF_TRAFFIC_WINDOW];
    struct conf_buffer in[CONF_TRAFFIC_WINDOW];
    uint32_t window, first;
    struct conf_op *sends[CONF_TRAFFIC_WINDOW];
    struct conf_buffer out[CONF_TRAFFIC_WINDOW];
};

/* Loads the plugin, opens both sides, and has the peer post receives. */
void conf_traffic_open(struct conf_traffic *traffic, enum conf_peer_mode mode, uint32_t receives);
void conf_traffic_open_with(struct conf_traffic *traffic, enum conf_peer_mode mode,
                            uint32_t receives, const struct conf_open *how);
void conf_traffic_close(struct conf_traffic *traffic);

/* Closes the traffic, then conf_skip(): an open peer would be killed, and could not clean up. */
_Noreturn void conf_traffic_skip(struct conf_traffic *traffic, const char *reason);

/* Sends `size` bytes after the header to an echoing peer, and checks the answer. */
void conf_traffic_echo(struct conf_traffic *traffic, uint64_t size, uint32_t tag);

/* Sends a numbered message, and waits for its completion. */
void conf_traffic_number(struct conf_traffic *traffic, uint64_t number, uint64_t size,
                         uint32_t tag);

/* Sends `count` numbered messages, many at a time. */
void conf_traffic_flood(struct conf_traffic *traffic, uint32_t count, uint64_t size);

void conf_traffic_receive(struct conf_traffic *traffic, uint32_t window);

/* The receive that was posted first: wait for it, read its result. */
void conf_traffic_wait_first(struct conf_traffic *traffic);
bool conf_traffic_first_is_done(const struct conf_traffic *traffic);
uint32_t conf_traffic_first_tag(const struct conf_traffic *traffic);
struct na_plugin_addr *conf_traffic_first_source(const struct conf_traffic *traffic);

/* Checks and reposts the first receive: it must be message `number` with `size` bytes, and if
 * `tagged` the tag that a peer gives it: the number, restarting at 0 after the highest tag. */
void conf_traffic_take(struct conf_traffic *traffic, uint32_t number, uint64_t size, bool tagged);

/* Reposts the first receive without a check; the caller owns the returned source. */
struct na_plugin_addr *conf_traffic_first_keep(struct conf_traffic *traffic);

#endif /* AMALGAM_CONF_TRAFFIC_H */
