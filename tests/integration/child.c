/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting, talking to, killing and collecting the child processes of integration tests. */
#define _GNU_SOURCE /* pipe2 */
#include "child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16

static void child_exec(int to, int from, const char *const *arguments);

bool child_start(struct child *child, const char *const *arguments)
{
    int in[2] = {-1, -1}, out[2] = {-1, -1};

    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        goto error;
    child->pid = fork();
    if (child->pid == 0)
        child_exec(in[0], out[1], arguments);
    if (child->pid < 0)
        goto error;
    close(in[0]);
    close(out[1]);
    child->to = in[1];
    child->from = out[0];
    return true;

error:
    for (int i = 0; i < 2; i++) {
        if (in[i] >= 0)
            close(in[i]);
        if (out[i] >= 0)
            close(out[i]);
    }
    return false;
}

static void child_exec(int to, int from, const char *const *arguments)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char *) "child"};

    for (int i = 0; i < ARGUMENTS_MAX && arguments[i] != NULL; i++)
        argv[i + 1] = strdup(arguments[i]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(to, STDIN_FILENO);
    dup2(from, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

bool child_read_line(struct child *child, char *line, size_t size, int timeout_ms)
{
    const long long end = now_ms() + timeout_ms;
    size_t used = 0;

    while (used + 1 < size) {
        struct pollfd poller = {.fd = child->from, .events = POLLIN};
        const long long left = end - now_ms();

        if (left <= 0 || poll(&poller, 1, (int) left) <= 0)
            return false;
        if (read(child->from, line + used, 1) != 1)
            return false;
        if (line[used] == '\n') {
            line[used] = '\0';
            return true;
        }
        used++;
    }
    return false;
}

bool child_tell(struct child *child, const char *line)
{
    return dprintf(child->to, "%s\n", line) > 0;
}

bool child_hear(char *line, size_t size)
{
    for (size_t used = 0; used + 1 < size && read(STDIN_FILENO, line + used, 1) == 1; used++) {
        if (line[used] == '\n') {
            line[used] = '\0';
            return true;
        }
    }
    return false;
}

bool child_is_told(void)
{
    struct pollfd poller = {.fd = STDIN_FILENO, .events = POLLIN};

    return poll(&poller, 1, 0) > 0;
}

void child_kill(struct child *child)
{
    kill(child->pid, SIGKILL);
}

int child_collect(struct child *child, int timeout_ms)
{
    const long long end = now_ms() + timeout_ms;
    int status = 0;
    bool in_time = true;

    close(child->to);
    while (waitpid(child->pid, &status, WNOHANG) == 0) {
        if (now_ms() > end) {
            in_time = false;
            kill(child->pid, SIGKILL);
            waitpid(child->pid, &status, 0);
            break;
        }
        usleep(1000);
    }
    close(child->from);
    if (!in_time)
        return -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool child_left_files(pid_t pid)
{
    DIR *directory = opendir("/dev/shm");
    struct dirent *entry;
    char number[32];
    bool found = false;

    if (directory == NULL)
        return false;
    snprintf(number, sizeof(number), ".%d-", (int) pid);
    while ((entry = readdir(directory)) != NULL)
        found = found ||
                (strstr(entry->d_name, "amalgam") != NULL && strstr(entry->d_name, number) != NULL);
    closedir(directory);
    return found;
}

long long now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (long long) time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

long test_number(const char *variable, long default_value)
{
    const char *text = getenv(variable);
    char *end = NULL;
    long value = text != NULL ? strtol(text, &end, 10) : 0;

    return text != NULL && end != text && *end == '\0' && value > 0 ? value : default_value;
}

const char *test_init_string(void)
{
    const char *value = getenv("AMALGAM_TEST_INIT");

    return value != NULL && value[0] != '\0' ? value : "na+sm";
}
