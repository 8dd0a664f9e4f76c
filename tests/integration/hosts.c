/* SPDX-License-Identifier: BSD-3-Clause */
/* Network namespaces and the veth pair between them, made with ip(8). */
#define _GNU_SOURCE /* unshare, setns */
#include "hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16
#define LINK_WAIT_MS  10000

static bool write_file(const char *path, const char *text);
static bool run_ip(pid_t host, const char *const *arguments);
static bool enter_network_of(pid_t host);
static bool wait_for_link(pid_t host);

bool hosts_possible(char *reason, size_t size)
{
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    char map[64];

    if (!run_ip(0, (const char *const[]){"-V", NULL})) {
        snprintf(reason, size, "the program ip (package iproute2) is not there");
        return false;
    }
    if (uid != 0) {
        if (unshare(CLONE_NEWUSER) != 0)
            goto refused;
        snprintf(map, sizeof(map), "0 %u 1\n", uid);
        if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map))
            goto refused;
        snprintf(map, sizeof(map), "0 %u 1\n", gid);
        if (!write_file("/proc/self/gid_map", map))
            goto refused;
    }
    /* Tried in a child that exits at once, so that this process stays in its namespaces. */
    const pid_t pid = fork();
    int status = 1;
    if (pid == 0)
        _exit(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : errno);
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (status == 0)
        return true;
    errno = WEXITSTATUS(status);

refused:
    snprintf(reason, size, "the system refuses network namespaces (%s): run as root",
             strerror(errno));
    return false;
}

bool host_enter(void)
{
    /*
     * /sys shows the devices of the network namespace in which it was mounted, and some fabrics
     * read it: a new sysfs is needed. The mount is private to this namespace. In a chroot only /sys
     * itself may be a mount point.
     */
    return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
           (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 ||
            mount("none", "/sys", NULL, MS_REC | MS_PRIVATE, NULL) == 0) &&
           mount("host", "/sys", "sysfs", 0, NULL) == 0 &&
           run_ip(0, (const char *const[]){"link", "set", "lo", "up", NULL});
}

bool hosts_join(pid_t host1, const char *address1, pid_t host2, const char *address2)
{
    const pid_t hosts[2] = {host1, host2};
    const char *const addresses[2] = {address1, address2};
    char number[32];

    snprintf(number, sizeof(number), "%d", (int) host2);
    if (!run_ip(host1, (const char *const[]){"link", "add", "name", "cable", "type", "veth", "peer",
                                             "name", "cable", "netns", number, NULL}))
        return false;
    for (int i = 0; i < 2; i++) {
        if (!run_ip(hosts[i],
                    (const char *const[]){"address", "add", addresses[i], "dev", "cable", NULL}) ||
            !host_cable(hosts[i], true))
            return false;
    }
    return wait_for_link(host1) && wait_for_link(host2);
}

bool host_cable(pid_t host, bool plugged)
{
    return run_ip(host,
                  (const char *const[]){"link", "set", "cable", plugged ? "up" : "down", NULL});
}

bool host_silence(pid_t host, const char *address, bool silent)
{
    return silent
               ? run_ip(host, (const char *const[]){"neigh", "replace", address, "lladdr",
                                                    "02:00:00:00:00:99", "dev", "cable", "nud",
                                                    "permanent", NULL})
               : run_ip(host, (const char *const[]){"neigh", "del", address, "dev", "cable", NULL});
}

/* The system reports a link that is up with a delay, and UCX uses no device before. */
static bool wait_for_link(pid_t host)
{
    char path[64], state[16] = "";

    snprintf(path, sizeof(path), "/proc/%d/root/sys/class/net/cable/operstate", (int) host);
    for (int i = 0; i < LINK_WAIT_MS; i++) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t size = fd < 0 ? -1 : read(fd, state, sizeof(state));

        if (fd >= 0)
            close(fd);
        if (size >= 2 && memcmp(state, "up", 2) == 0)
            return true;
        usleep(1000);
    }
    return false;
}

static bool write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written;

    if (fd < 0)
        return false;
    written = write(fd, text, strlen(text)) == (ssize_t) strlen(text);
    close(fd);
    return written;
}

/* Runs ip(8) with these arguments in the network namespace of a process; 0: in our own. */
static bool run_ip(pid_t host, const char *const *arguments)
{
    const pid_t pid = fork();
    int status = 1;

    if (pid == 0) {
        char *argv[ARGUMENTS_MAX + 2] = {(char *) "ip"};

        for (int i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++)
            argv[i + 1] = (char *) arguments[i];
        /* ip must not write to standard output, which is the pipe to the test */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (host != 0 && !enter_network_of(host))
            _exit(126);
        execvp("ip", argv);
        execv("/sbin/ip", argv);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool enter_network_of(pid_t host)
{
    char path[64];
    bool entered;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int) host);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    entered = setns(fd, CLONE_NEWNET) == 0;
    close(fd);
    return entered;
}
