/* SPDX-License-Identifier: BSD-3-Clause */
/* The parent's side of a peer process. */

#include "na_conformance/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "na_conformance/runner.h"

#define PEER_DESCRIPTORS 1024 /* lower descriptors are closed on exec */

static void peer_exec(int control_fd, const struct conf_peer_options *options, pid_t parent);
static void peer_inherit_nothing(void);
static bool reply_take(struct conf_peer *peer, struct conf_peer_reply *reply);
static void peer_forget(struct conf_peer *peer);
static void peer_ended(struct conf_peer *peer, int status);

static struct conf_peer *peers;

void conf_peer_start(struct conf_peer *peer, const struct conf_peer_options *options)
{
    static const struct conf_peer_options usual = {.contexts = 1};
    struct conf_peer_reply reply;
    const pid_t parent = getpid();
    int fds[2];

    memset(peer, 0, sizeof(*peer));
    conf_require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) == 0,
                 "no socket for a peer: %s", strerror(errno));
    (void) fflush(NULL);
    peer->pid = fork();
    if (peer->pid == 0)
        peer_exec(fds[1], options != NULL ? options : &usual, parent);
    (void) close(fds[1]);
    conf_require(peer->pid > 0, "no process for a peer: %s", strerror(errno));
    peer->fd = fds[0];
    peer->next = peers;
    peers = peer;
    for (uint64_t until = conf_now_ms() + 2 * CONF_WAIT_MS; !reply_take(peer, &reply);) {
        conf_require(conf_now_ms() < until, "a peer process did not open its endpoint in %u ms",
                     2 * CONF_WAIT_MS);
        conf_progress();
        (void) conf_pause(peer->fd);
    }
    (void) snprintf(peer->address, sizeof(peer->address), "%s", reply.text);
}

void conf_peer_meet(struct conf_peer *peer, struct conf_end *end)
{
    peer->addr = conf_lookup(end, peer->address);
}

void conf_peer_stop(struct conf_peer *peer)
{
    const uint64_t until = conf_now_ms() + CONF_WAIT_MS;
    int status = 0;

    (void) shutdown(peer->fd, SHUT_WR);
    while (!tool_process_wait(peer->pid, 0, &status)) {
        if (conf_now_ms() > until) {
            conf_watch_broken(CONF_WATCH_PEER, "a peer process did not close its endpoint in %u ms",
                              CONF_WAIT_MS);
            (void) kill(peer->pid, SIGKILL);
            (void) waitpid(peer->pid, NULL, 0);
            status = 0;
            break;
        }
        conf_progress();
        (void) conf_pause(-1);
    }
    peer_forget(peer);
    peer_ended(peer, status);
}

void conf_peer_kill(struct conf_peer *peer)
{
    (void) kill(peer->pid, SIGKILL);
    (void) waitpid(peer->pid, NULL, 0);
    peer_forget(peer);
}

void conf_peer_pause(const struct conf_peer *peer, bool pause)
{
    int status;

    (void) kill(peer->pid, pause ? SIGSTOP : SIGCONT);
    if (pause)
        (void) waitpid(peer->pid, &status, WUNTRACED);
}

void conf_pair_open(struct conf_peer *peer, struct conf_end *end, const struct conf_open *how)
{
    conf_load();
    conf_open(end, how);
    conf_peer_start(peer, NULL);
    conf_peer_meet(peer, end);
}

void conf_pair_close(struct conf_peer *peer, struct conf_end *end)
{
    conf_addr_free(end, peer->addr);
    conf_close(end);
    conf_peer_stop(peer);
}

void conf_peer_call(struct conf_peer *peer, const struct conf_peer_command *command,
                    struct conf_peer_reply *reply)
{
    conf_peer_post(peer, command);
    conf_peer_finish(peer, reply);
}

void conf_peer_post(struct conf_peer *peer, const struct conf_peer_command *command)
{
    if (send(peer->fd, command, sizeof(*command), MSG_NOSIGNAL) != (ssize_t) sizeof(*command))
        conf_fail("a peer process does not take commands: %s%s", strerror(errno),
                  conf_peers_live() ? "" : "; it has ended");
}

void conf_peer_finish(struct conf_peer *peer, struct conf_peer_reply *reply)
{
    const uint64_t until = conf_now_ms() + 3 * CONF_WAIT_MS;
    bool is_idle = false;

    for (uint64_t turn = 1; !reply_take(peer, reply); turn++) {
        conf_progress();
        if (turn % 64 != 0 && !is_idle)
            continue;
        conf_require(conf_now_ms() < until,
                     "a peer process did not finish in %u ms what it was told", 3 * CONF_WAIT_MS);
        is_idle = conf_pause(peer->fd);
    }
}

void conf_peer_tell(struct conf_peer *peer, enum conf_peer_kind kind, enum conf_peer_mode mode,
                    uint32_t count)
{
    const struct conf_peer_command command = {.kind = kind, .mode = mode, .count = count};
    struct conf_peer_reply reply;

    conf_peer_call(peer, &command, &reply);
    conf_require(reply.status == NA_PLUGIN_SUCCESS, "in the peer: command %u ended with %s", kind,
                 conf_status_name(reply.status));
}

void conf_peer_send(struct conf_peer *peer, enum conf_peer_kind how, const struct conf_end *to,
                    enum conf_peer_mode mode, uint32_t count, uint64_t size, uint32_t tag)
{
    struct conf_peer_command command;
    struct conf_peer_reply reply;

    conf_peer_sending(&command, how, to, mode, count, size, tag);
    conf_peer_call(peer, &command, &reply);
    conf_require(reply.status == NA_PLUGIN_SUCCESS, "in the peer: sending ended with %s",
                 conf_status_name(reply.status));
}

void conf_peer_sending(struct conf_peer_command *command, enum conf_peer_kind how,
                       const struct conf_end *to, enum conf_peer_mode mode, uint32_t count,
                       uint64_t size, uint32_t tag)
{
    *command = (struct conf_peer_command){
        .kind = how, .mode = mode, .count = count, .size = size, .tag = tag};
    (void) snprintf(command->text, sizeof(command->text), "%s", to->address);
}

void conf_peer_expect_count(struct conf_peer *peer, uint64_t wanted)
{
    const struct conf_peer_command command = {.kind = CONF_PEER_REPORT};
    const uint64_t until = conf_now_ms() + CONF_WAIT_MS;
    struct conf_peer_reply reply;

    for (;;) {
        conf_peer_call(peer, &command, &reply);
        if (reply.values[0] >= wanted || conf_now_ms() >= until)
            break;
        (void) conf_pause(-1);
    }
    conf_require(reply.values[0] == wanted, "%llu messages were sent, %llu arrived",
                 (unsigned long long) wanted, (unsigned long long) reply.values[0]);
    conf_require(reply.values[1] == 0, "%llu of %llu messages were out of order",
                 (unsigned long long) reply.values[1], (unsigned long long) wanted);
    conf_require(reply.values[2] == 0, "%llu of %llu messages did not have their content",
                 (unsigned long long) reply.values[2], (unsigned long long) wanted);
}

bool conf_peers_live(void)
{
    bool live = true;

    for (struct conf_peer *peer = peers, *next; peer != NULL; peer = next) {
        int status;

        next = peer->next;
        if (!tool_process_wait(peer->pid, 0, &status))
            continue;
        peer_forget(peer);
        peer_ended(peer, status);
        live = false;
    }
    return live;
}

/* Runs the peer in the child process; does not return. */
static void peer_exec(int control_fd, const struct conf_peer_options *options, pid_t parent)
{
    char control[16], shared[16], contexts[16], progress[16], log[16], patience[16];
    const char *argv[] = {"na_conformance",
                          "--plugin",
                          conf_settings.plugin,
                          "--init",
                          conf_settings.init,
                          "--peer-control",
                          control,
                          "--peer-shared",
                          shared,
                          "--peer-contexts",
                          contexts,
                          "--peer-progress",
                          progress,
                          "--log",
                          log,
                          "--patience",
                          patience,
                          conf_settings.fast ? "--fast" : NULL,
                          NULL};

    (void) snprintf(control, sizeof(control), "%d", control_fd);
    (void) snprintf(shared, sizeof(shared), "%d", conf_runner_shared_fd());
    (void) snprintf(contexts, sizeof(contexts), "%u", options->contexts);
    (void) snprintf(progress, sizeof(progress), "%u", options->progress_mode);
    (void) snprintf(log, sizeof(log), "%u", conf_settings.log_level);
    (void) snprintf(patience, sizeof(patience), "%u", conf_patience);
    peer_inherit_nothing();
    if (tool_process_die_with_parent(parent, SIGKILL) && fcntl(control_fd, F_SETFD, 0) == 0 &&
        fcntl(conf_runner_shared_fd(), F_SETFD, 0) == 0)
        (void) execv("/proc/self/exe", (char *const *) (void *) argv);
    tool_error("cannot run a peer process: %s", strerror(errno));
    _exit(TOOL_EXIT_FAILED);
}

/* Some libraries do not close their sockets on exec, and a peer that inherited one would listen
 * in our place. */
static void peer_inherit_nothing(void)
{
    for (int fd = STDERR_FILENO + 1; fd < PEER_DESCRIPTORS; fd++)
        (void) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* False: no reply yet. A peer that has ended ends the check. */
static bool reply_take(struct conf_peer *peer, struct conf_peer_reply *reply)
{
    ssize_t got = recv(peer->fd, reply, sizeof(*reply), MSG_DONTWAIT);

    if (got == (ssize_t) sizeof(*reply))
        return true;
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    tool_clock_sleep_ms(50);
    (void) conf_peers_live();
    conf_fail("a peer process has ended by itself");
}

static void peer_forget(struct conf_peer *peer)
{
    if (peer->fd >= 0)
        (void) close(peer->fd);
    peer->fd = -1;
    peer->pid = 0;
    for (struct conf_peer **link = &peers; *link != NULL; link = &(*link)->next) {
        if (*link == peer) {
            *link = peer->next;
            return;
        }
    }
}

static void peer_ended(struct conf_peer *peer, int status)
{
    char text[128];

    (void) peer;
    if (status == 0)
        return;
    tool_process_describe(status, text, sizeof(text));
    conf_watch_broken(CONF_WATCH_PEER, "a peer process %s", text);
}
