/* SPDX-License-Identifier: BSD-3-Clause */
/* Target processes: starting, watching and ending them. */

#include "common/tool_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_signal.h"

static void target_exec(const char *const args[], int address_fd, pid_t parent);
static void process_exec_self(const char *const argv[]);
static bool target_read_address(struct tool_target *target, int fd, unsigned int timeout_ms);
static bool process_collect(pid_t pid, int *status);
static int process_open(pid_t pid);

bool tool_target_start(struct tool_target *target, const char *const args[],
                       unsigned int timeout_ms)
{
    pid_t parent = getpid();
    int fds[2];
    bool ready;

    memset(target, 0, sizeof(*target));
    if (pipe2(fds, O_CLOEXEC) != 0) {
        tool_error("cannot make a pipe for the target's address: %s", strerror(errno));
        return false;
    }
    (void) fflush(NULL);
    target->pid = fork();
    if (target->pid == 0)
        target_exec(args, fds[1], parent);
    (void) close(fds[1]);
    if (target->pid < 0) {
        tool_error("cannot start a target process: %s", strerror(errno));
        target->pid = 0;
        (void) close(fds[0]);
        return false;
    }
    ready = target_read_address(target, fds[0], timeout_ms);
    (void) close(fds[0]);
    if (!ready)
        tool_target_stop(target);
    return ready;
}

bool tool_target_running(struct tool_target *target, char *text, size_t text_size)
{
    int status;

    if (target->pid == 0) {
        (void) snprintf(text, text_size, "does not run");
        return false;
    }
    if (!tool_process_wait(target->pid, 0, &status))
        return true;
    target->pid = 0;
    tool_process_describe(status, text, text_size);
    return false;
}

void tool_target_pause(const struct tool_target *target, bool pause)
{
    if (target->pid > 0)
        (void) kill(target->pid, pause ? SIGUSR1 : SIGUSR2);
}

void tool_target_stop(struct tool_target *target)
{
    if (target->pid == 0)
        return;
    (void) kill(target->pid, SIGTERM);
    if (!tool_process_wait(target->pid, 2000, NULL)) {
        (void) kill(target->pid, SIGKILL);
        (void) waitpid(target->pid, NULL, 0);
    }
    target->pid = 0;
}

bool tool_target_report(int fd, const char *address)
{
    char line[TOOL_ADDRESS_SIZE + 1];
    int len = snprintf(line, sizeof(line), "%s\n", address);
    bool written = len > 0 && (size_t) len < sizeof(line) && write(fd, line, (size_t) len) == len;

    (void) close(fd);
    if (!written)
        tool_error("cannot report the address '%s' to the process that started the target",
                   address);
    return written;
}

bool tool_process_die_with_parent(pid_t parent, int signal_number)
{
    /* The parent may have ended before the call took effect. */
    return prctl(PR_SET_PDEATHSIG, signal_number) == 0 && getppid() == parent;
}

bool tool_process_wait(pid_t pid, unsigned int timeout_ms, int *status)
{
    const uint64_t until = tool_clock_ns() + (uint64_t) timeout_ms * 1000000;
    struct pollfd end = {.fd = -1, .events = POLLIN};
    bool has_ended;

    while (!(has_ended = process_collect(pid, status))) {
        const uint64_t now = tool_clock_ns();

        if (now >= until)
            break;
        if (end.fd < 0)
            end.fd = process_open(pid);
        if (end.fd >= 0)
            (void) poll(&end, 1, (int) ((until - now) / 1000000) + 1);
        else
            tool_clock_sleep_ms(1);
    }
    if (end.fd >= 0)
        (void) close(end.fd);
    return has_ended;
}

static bool process_collect(pid_t pid, int *status)
{
    int ended = 0;
    const pid_t ret = waitpid(pid, &ended, WNOHANG);

    if (ret != pid && (ret >= 0 || errno != ECHILD))
        return false;
    if (status != NULL)
        *status = ended;
    return true;
}

/* Returns a descriptor that is readable once the process has ended; negative: not supported. */
static int process_open(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int) syscall(SYS_pidfd_open, pid, 0);
#else
    (void) pid;
    return -1;
#endif
}

void tool_process_describe(int status, char *text, size_t text_size)
{
    if (WIFSIGNALED(status))
        (void) snprintf(text, text_size, "was killed by signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    else
        (void) snprintf(text, text_size, "ended with code %d", WEXITSTATUS(status));
}

void tool_process_raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Becomes the target in the child process; does not return. */
static void target_exec(const char *const args[], int address_fd, pid_t parent)
{
    const char *argv[TOOL_ARGS_MAX + 4];
    char fd_text[16];
    size_t count = 0;

    argv[count++] = tool_message_get_name();
    for (size_t i = 0; args[i] != NULL && count < TOOL_ARGS_MAX; i++)
        argv[count++] = args[i];
    (void) snprintf(fd_text, sizeof(fd_text), "%d", address_fd);
    argv[count++] = "--address-fd";
    argv[count++] = fd_text;
    argv[count] = NULL;

    tool_signal_ignore_terminal();
    if (tool_process_die_with_parent(parent, SIGTERM) && fcntl(address_fd, F_SETFD, 0) == 0)
        process_exec_self(argv);
    tool_error("cannot run the target process: %s", strerror(errno));
    _exit(TOOL_EXIT_FAILED);
}

/* Runs the executable by its path, so that the process list shows the tool's name, unless the
 * path has another file by now. Returns only on failure. */
static void process_exec_self(const char *const argv[])
{
    static const char self[] = "/proc/self/exe";
    char path[PATH_MAX];
    ssize_t len = readlink(self, path, sizeof(path) - 1);
    struct stat running, found;

    path[len > 0 ? len : 0] = '\0';
    if (stat(self, &running) == 0 && stat(path, &found) == 0 && running.st_dev == found.st_dev &&
        running.st_ino == found.st_ino)
        (void) execv(path, (char *const *) (void *) argv);
    (void) execv(self, (char *const *) (void *) argv);
}

static bool target_read_address(struct tool_target *target, int fd, unsigned int timeout_ms)
{
    uint64_t until = tool_clock_ns() + (uint64_t) timeout_ms * 1000000;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    size_t used = 0;
    ssize_t got = -1;

    while (used < sizeof(target->address) - 1 && tool_clock_ns() < until) {
        if (tool_signal_received() != 0)
            return false;
        if (poll(&poll_fd, 1, 100) <= 0)
            continue;
        got = read(fd, target->address + used, sizeof(target->address) - 1 - used);
        if (got <= 0)
            break;
        used += (size_t) got;
        if (memchr(target->address, '\n', used) != NULL) {
            target->address[strcspn(target->address, "\n")] = '\0';
            return target->address[0] != '\0';
        }
    }
    if (got == 0)
        tool_error("the target process ended before it had an address; its messages say why");
    else
        tool_error("the target process reported no address within %u ms", timeout_ms);
    return false;
}
