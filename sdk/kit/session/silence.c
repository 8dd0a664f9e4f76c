/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Silent networks. An operation waits for its peer as long as there is a sign of life: a frame, or
 * an answer of the peer's host to a connection to the peer's port, which the operating system gives
 * even if the process is busy or gone. A peer without one for AMALGAM_SILENCE_TIMEOUT has failed.
 * One probe connection stays open, with keepalive, while the peer is silent. A new one for each
 * probe would fill the accept queue of a busy process, and a full queue looks like silence.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* secure_getenv */
#endif
#include "session_state.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Long enough for switches and aggregated links to change their routes. */
#define SESSION_SILENCE_DEFAULT_MS 30000u

/* Most that one tick adds: a process that polls rarely has not listened in between. */
#define SESSION_SILENCE_STEP_MS 1000u

static void probe_start(struct kit_peer *peer);
static void probe_read(struct kit_peer *peer);
static void probe_keep_alive(struct kit_peer *peer);
static void probe_close(struct kit_peer *peer);
static bool error_is_silence(int error);

/* Reads AMALGAM_SILENCE_TIMEOUT: seconds, with decimals; 0: never. */
int32_t kit_silence_setup(struct kit_session *session)
{
    const char *text = secure_getenv("AMALGAM_SILENCE_TIMEOUT");
    char *end = NULL;
    double seconds;

    session->silence_ms = session->config.has_tcp_names ? SESSION_SILENCE_DEFAULT_MS : 0;
    if (text == NULL)
        return NA_PLUGIN_SUCCESS;
    seconds = strtod(text, &end);
    if (end == text || *end != '\0' || !(seconds >= 0) || seconds > UINT32_MAX / 1000) {
        SESSION_LOG_ERROR(session,
                          "AMALGAM_SILENCE_TIMEOUT is '%.40s'; it is a number of seconds, 0 for no "
                          "limit",
                          text);
        return NA_PLUGIN_INVALID_ARG;
    }
    if (session->silence_ms != 0)
        session->silence_ms = seconds > 0 && seconds < 0.001 ? 1 : (uint32_t) (seconds * 1000);
    return NA_PLUGIN_SUCCESS;
}

/* There was a sign of life, or no operation waits for the peer. */
void kit_silence_end(struct kit_peer *peer)
{
    peer->quiet_ms = peer->probed_ms = 0;
    probe_close(peer);
}

/* Called after `elapsed_ms` without a frame. True: the peer has failed. */
bool kit_silence_check(struct kit_peer *peer, uint64_t elapsed_ms)
{
    const uint32_t limit = peer->session->silence_ms;
    const uint32_t share = limit / 4;

    if (limit == 0)
        return false;
    peer->quiet_ms +=
        (uint32_t) (elapsed_ms < SESSION_SILENCE_STEP_MS ? elapsed_ms : SESSION_SILENCE_STEP_MS);
    if (peer->is_probing)
        probe_read(peer);
    if (peer->quiet_ms < share)
        return false;
    if (peer->quiet_ms < limit || peer->probed_ms == 0) {
        probe_start(peer);
        return false;
    }
    SESSION_LOG(peer->session, NA_PLUGIN_LOG_INFO,
                "neither %s nor its host gave a sign of life for %u ms", peer->name,
                peer->quiet_ms);
    kit_peer_failed(peer, NA_PLUGIN_HOSTUNREACH, "neither it nor its host gave a sign of life");
    peer->silent_network_ms = peer->quiet_ms;
    return true;
}

/* Begins to connect, again after a while. A peer whose host cannot be probed counts as alive. */
static void probe_start(struct kit_peer *peer)
{
    const struct kit_session *session = peer->session;
    char reason[KIT_LOCATION_REASON_MAX];
    struct sockaddr_storage address;
    struct kit_location location;

    if (peer->is_probe_answered)
        return;
    if (peer->is_probing) {
        if (peer->quiet_ms - peer->probed_ms < session->silence_ms / 4)
            return;
        probe_close(peer);
    } else if (peer->probed_ms != 0 && peer->quiet_ms > peer->probed_ms &&
               peer->quiet_ms - peer->probed_ms < session->silence_ms / 16) {
        return;
    }
    peer->probed_ms = peer->quiet_ms;
    if (kit_location_parse(peer->name, &location, reason) != NA_PLUGIN_SUCCESS ||
        kit_location_resolve_formatted(&location, NA_PLUGIN_ADDR_UNSPEC, &address, reason) !=
            NA_PLUGIN_SUCCESS) {
        peer->quiet_ms = 0;
        return;
    }
    peer->probe_fd =
        socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    if (peer->probe_fd < 0) {
        peer->quiet_ms = 0;
        return;
    }
    peer->is_probing = true;
    if (connect(peer->probe_fd, (const struct sockaddr *) &address,
                kit_location_length(&address)) != 0 &&
        errno != EINPROGRESS) {
        if (!error_is_silence(errno))
            peer->quiet_ms = 0;
        probe_close(peer);
    }
}

/*
 * Sets quiet_ms from the host's last acknowledgement on the connection. A refused or closed
 * connection is a sign of life, too.
 */
static void probe_read(struct kit_peer *peer)
{
    struct pollfd descriptor = {.fd = peer->probe_fd, .events = POLLOUT | POLLRDHUP};
    socklen_t size = sizeof(int), info_size = sizeof(struct tcp_info);
    struct tcp_info info = {0};
    int error = 0;

    if (poll(&descriptor, 1, 0) != 1)
        return;
    if (getsockopt(peer->probe_fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
        error = errno;
    if (error_is_silence(error)) {
        probe_close(peer);
    } else if (error != 0 || (descriptor.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ||
               getsockopt(peer->probe_fd, IPPROTO_TCP, TCP_INFO, &info, &info_size) != 0) {
        kit_silence_end(peer);
    } else {
        if (!peer->is_probe_answered)
            probe_keep_alive(peer);
        if (info.tcpi_last_ack_recv < peer->quiet_ms)
            peer->quiet_ms = info.tcpi_last_ack_recv;
    }
}

/* Keepalive probes are sent often enough for a silence to be noticed in time. */
static void probe_keep_alive(struct kit_peer *peer)
{
    const uint32_t limit = peer->session->silence_ms;
    const int on = 1, count = 127, seconds = limit < 8000 ? 1 : (int) (limit / 8000);

    (void) setsockopt(peer->probe_fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    (void) setsockopt(peer->probe_fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
    (void) setsockopt(peer->probe_fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
    (void) setsockopt(peer->probe_fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    peer->is_probe_answered = true;
}

static void probe_close(struct kit_peer *peer)
{
    if (peer->is_probing)
        (void) close(peer->probe_fd);
    peer->is_probing = peer->is_probe_answered = false;
}

/* True for errors that our own system reports when nothing came from the host. */
static bool error_is_silence(int error)
{
    return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
           error == EHOSTDOWN || error == ENETDOWN;
}
