/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tries plugin files in processes of their own: a plugin that crashes in a constructor, in its
 * entry function or while it lists its protocols crashes such a process instead of the program. The
 * process runs a helper program that is installed beside the plugins (probe_main.c). posix_spawn()
 * starts it, because a child of fork() would have locks of the program's other threads that no
 * thread ever releases.
 */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* secure_getenv, pipe2 */
#endif

#include "na/loader_probe.h"

#include "na/log.h"
#include "na/plugin_file.h"
#include "na/search_path.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
#define AT_ONCE   8     /* processes that run at the same time */
#define LIMIT_MS  30000 /* time limit of those processes */
#define SLICE_MS  100   /* between checks of processes whose pipe stays open after they end */

/* A process that tries a file. */
struct running {
    struct na_probe *probe;
    pid_t pid;
    int pipe;       /* read end of its stdout; -1: the process has ended */
    char mark;      /* last progress mark that it wrote, see probe_main.c; '\0': none */
    bool is_closed; /* the write end is closed */
};

extern char **environ;

static uint64_t limit_ms(void);
static bool helper_get(char *path, size_t size, uint32_t core_owner);
static bool start(struct running *running, const char *helper, const char *protocol);
static bool spawn(struct running *running, const char *helper, const char *protocol, int out);
static bool any_is_running(const struct running *all, size_t count);
static void wait_for_any(struct running *all, size_t count, int timeout_ms);
static void read_marks(struct running *running);
static void reap(struct running *running, bool is_late);
static void describe(struct na_probe *probe, int status, bool is_late);

void na_probe_all(struct na_probe *probes, size_t count, uint32_t core_owner, const char *protocol)
{
    const uint64_t limit = limit_ms();
    char helper[PATH_MAX];

    if (count == 0 || limit == 0 || !helper_get(helper, sizeof(helper), core_owner))
        return;
    for (size_t next = 0; next < count;) {
        struct running all[AT_ONCE];
        const uint64_t until = util_clock_ns() + limit * NS_PER_MS;
        size_t started = 0;

        for (; started < AT_ONCE && next < count; next++) {
            all[started].probe = &probes[next];
            if (start(&all[started], helper, protocol))
                started++;
        }
        while (any_is_running(all, started) && util_clock_ns() < until)
            wait_for_any(all, started, SLICE_MS);
        for (size_t i = 0; i < started; i++)
            reap(&all[i], true);
    }
}

/* Returns the time limit; 0: files are not tried. */
static uint64_t limit_ms(void)
{
    const char *text = secure_getenv("NA_PLUGIN_PROBE_MS");
    unsigned long value;
    char *rest;

    if (text == NULL || *text == '\0')
        return LIMIT_MS;
    errno = 0;
    value = strtoul(text, &rest, 10);
    if (errno == 0 && *rest == '\0' && *text != '-' && value <= INT_MAX)
        return value;
    NA_LOG_WARNING("NA_PLUGIN_PROBE_MS is \"%s\", not a number of milliseconds, 0 for none; it is "
                   "ignored",
                   text);
    return LIMIT_MS;
}

static bool helper_get(char *path, size_t size, uint32_t core_owner)
{
    char reason[512];

    if (!na_search_path_built_in(path, size) || strlen(path) + sizeof("/na_probe") > size) {
        NA_LOG_DEBUG("plugins are loaded untried: this library's own place is not known");
        return false;
    }
    (void) strcat(path, "/na_probe");
    if (access(path, X_OK) != 0) {
        NA_LOG_DEBUG("plugins are loaded untried: %s: %s", path, strerror(errno));
        return false;
    }
    if (!na_plugin_file_is_safe(path, core_owner, reason, sizeof(reason))) {
        NA_LOG_WARNING("plugins are loaded untried: %s: %s", path, reason);
        return false;
    }
    return true;
}

static bool start(struct running *running, const char *helper, const char *protocol)
{
    int ends[2];
    bool started;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        NA_LOG_DEBUG("%s is loaded untried: no pipe: %s", running->probe->path, strerror(errno));
        return false;
    }
    started = spawn(running, helper, protocol, ends[1]);
    (void) close(ends[1]);
    running->pipe = ends[0];
    running->mark = '\0';
    running->is_closed = false;
    if (!started)
        (void) close(ends[0]);
    return started;
}

/*
 * Starts the helper with default signal handlers and no blocked signal, whatever the program has
 * set, and in a process group of its own: a signal to the program's group (^C at a terminal) must
 * not look like a crash of the plugin.
 */
static bool spawn(struct running *running, const char *helper, const char *protocol, int out)
{
    const char *const argv[] = {"na_probe", running->probe->path, running->probe->name, protocol,
                                NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int error = ENOMEM;

    (void) sigemptyset(&none);
    (void) sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0)
        goto out;
    if (posix_spawnattr_init(&attributes) != 0)
        goto out_actions;
    error = posix_spawnattr_setsigmask(&attributes, &none);
    if (error == 0)
        error = posix_spawnattr_setsigdefault(&attributes, &all);
    if (error == 0)
        error = posix_spawnattr_setpgroup(&attributes, 0);
    if (error == 0)
        error = posix_spawnattr_setflags(
            &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (error == 0)
        error = posix_spawn(&running->pid, helper, &actions, &attributes,
                            (char *const *) (uintptr_t) argv, environ);
    (void) posix_spawnattr_destroy(&attributes);
out_actions:
    (void) posix_spawn_file_actions_destroy(&actions);
out:
    if (error != 0)
        NA_LOG_DEBUG("%s is loaded untried: no process: %s", running->probe->path, strerror(error));
    return error == 0;
}

static bool any_is_running(const struct running *all, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (all[i].pipe >= 0)
            return true;
    return false;
}

/* Checks the processes, too: a plugin may close its end of the pipe, or leave it to a child. */
static void wait_for_any(struct running *all, size_t count, int timeout_ms)
{
    struct pollfd fds[AT_ONCE];

    for (size_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = all[i].is_closed ? -1 : all[i].pipe, .events = POLLIN};
    (void) poll(fds, (nfds_t) count, timeout_ms);
    for (size_t i = 0; i < count; i++) {
        if (all[i].pipe < 0)
            continue;
        read_marks(&all[i]);
        reap(&all[i], false);
    }
}

static void read_marks(struct running *running)
{
    char marks[16];
    ssize_t got;

    while ((got = read(running->pipe, marks, sizeof(marks))) > 0)
        running->mark = marks[got - 1];
    if (got == 0)
        running->is_closed = true;
}

/* Evaluates a process that has ended. One that still runs is killed if `is_late`, or else left
 * alone. If the program ignores SIGCHLD, or waits for any child, the exit status is lost and only
 * the mark tells the result. */
static void reap(struct running *running, bool is_late)
{
    int status = 0;
    pid_t pid;

    if (running->pipe < 0)
        return;
    do {
        pid = waitpid(running->pid, &status, WNOHANG);
    } while (pid < 0 && errno == EINTR);
    if (pid == 0 && !is_late)
        return;
    if (pid == 0) {
        (void) kill(-running->pid, SIGKILL); /* with the processes that the plugin has started */
        (void) kill(running->pid, SIGKILL);  /* in case it has left its group */
        while (waitpid(running->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    } else {
        is_late = false;
        read_marks(running); /* it may have written more before it ended */
    }
    if (pid < 0)
        status = -1;
    (void) close(running->pipe);
    running->pipe = -1;
    if (running->mark == '\0')
        NA_LOG_DEBUG("%s is loaded untried: the process for it did not begin",
                     running->probe->path);
    else if (running->mark != 'd' || status > 0)
        describe(running->probe, status, is_late);
}

static void describe(struct na_probe *probe, int status, bool is_late)
{
    static const char doing[] = "while it loaded the file and asked for its protocols";

    probe->has_crashed = true;
    if (is_late)
        (void) snprintf(probe->text, sizeof(probe->text),
                        "the process that tried it did not come to an end %s", doing);
    else if (status >= 0 && WIFSIGNALED(status))
        (void) snprintf(probe->text, sizeof(probe->text),
                        "the process that tried it was killed by signal %d (%s) %s",
                        WTERMSIG(status), strsignal(WTERMSIG(status)), doing);
    else if (status >= 0)
        (void) snprintf(probe->text, sizeof(probe->text),
                        "the process that tried it was ended by the plugin, with code %d, %s",
                        WEXITSTATUS(status), doing);
    else
        (void) snprintf(probe->text, sizeof(probe->text), "the process that tried it ended %s",
                        doing);
}
