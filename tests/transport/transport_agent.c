/* SPDX-License-Identifier: BSD-3-Clause */
/* Both sides of the sockets on which agents accept requests. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "transport_agent.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define AGENTS     64
#define CONNECT_MS 20000 /* how long an agent that has just been started may take to listen */

static struct sockaddr_un agent_address(const char *folder, int number);
static int agent_connect(int number, int attempts);
static bool agent_send(int fd, const char *option, int input, int output);
static bool agent_receive(int fd, char option[AGENT_OPTION_MAX], int fds[2]);
static void agents_dismiss(void);
static void standard_restore(const int kept[2]);

static int agents[AGENTS]; /* the test's connection to each agent; 0: not connected yet */

bool agent_is_used(void)
{
    return getenv("AMALGAM_TEST_AGENTS") != NULL;
}

int agent_start(const char *option, int input, int output)
{
    static bool is_dismissal_set;
    int number = 0;

    if (!is_dismissal_set)
        (void) atexit(agents_dismiss);
    is_dismissal_set = true;
    while (number < AGENTS && agents[number] != 0)
        number++;
    if (number == AGENTS)
        return -1;
    agents[number] = agent_connect(number, CONNECT_MS / 10);
    if (agents[number] < 0) {
        (void) fprintf(stderr, "there is no agent number %d\n", number);
        agents[number] = 0;
        return -1;
    }
    return agent_send(agents[number], option, input, output) ? agents[number] : -1;
}

bool agent_end(int agent)
{
    char status = 0;
    bool is_well = read(agent, &status, 1) == 1 && status == '+';

    for (int i = 0; i < AGENTS; i++)
        if (agents[i] == agent)
            agents[i] = 0;
    (void) close(agent);
    return is_well;
}

/* An empty option ends the agent. */
int agent_serve(const char *folder, bool (*session)(const char *option))
{
    const int kept[2] = {dup(STDIN_FILENO), dup(STDOUT_FILENO)};
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    char option[AGENT_OPTION_MAX] = "";
    int failed = 0, error = -1, fd;

    for (int i = 0; i < AGENTS && error != 0; i++) {
        struct sockaddr_un address = agent_address(folder, i);

        error = bind(listener, (struct sockaddr *) &address, sizeof(address));
    }
    if (error != 0 || listen(listener, 1) != 0 || !session(NULL))
        return 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        int fds[2] = {-1, -1};
        bool is_well;

        if (!agent_receive(fd, option, fds) || option[0] == '\0')
            break;
        for (int i = 0; i < 2; i++) {
            (void) dup2(fds[i], i);
            (void) close(fds[i]);
        }
        is_well = session(option);
        standard_restore(kept);
        failed += !is_well;
        if (write(fd, is_well ? "+" : "-", 1) != 1)
            break;
        (void) close(fd);
    }
    return failed != 0;
}

static struct sockaddr_un agent_address(const char *folder, int number)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void) snprintf(address.sun_path, sizeof(address.sun_path), "%.80s/agent-%d", folder, number);
    return address;
}

static int agent_connect(int number, int attempts)
{
    struct sockaddr_un address = agent_address(getenv("AMALGAM_TEST_AGENTS"), number);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    for (int i = 0; i < attempts; i++) {
        if (connect(fd, (struct sockaddr *) &address, sizeof(address)) == 0)
            return fd;
        (void) usleep(10000);
    }
    (void) close(fd);
    return -1;
}

static bool agent_send(int fd, const char *option, int input, int output)
{
    char text[AGENT_OPTION_MAX] = "", control[CMSG_SPACE(2 * sizeof(int))] = "";
    struct iovec data = {text, sizeof(text)};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    int fds[2] = {input, output};

    (void) snprintf(text, sizeof(text), "%s", option);
    if (input >= 0) {
        struct cmsghdr *header;

        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(header), fds, sizeof(fds));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t) sizeof(text);
}

static bool agent_receive(int fd, char option[AGENT_OPTION_MAX], int fds[2])
{
    char control[CMSG_SPACE(2 * sizeof(int))];
    struct iovec data = {option, AGENT_OPTION_MAX};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    const struct cmsghdr *header;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != AGENT_OPTION_MAX)
        return false;
    header = CMSG_FIRSTHDR(&message);
    if (header != NULL && header->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(header), 2 * sizeof(int));
    return option[0] == '\0' || fds[0] >= 0;
}

/* Tells the agents to end. An agent that serves another test is left alone, and one that hangs is
 * not waited for. */
static void agents_dismiss(void)
{
    for (int i = 0; i < AGENTS; i++) {
        int fd = agents[i] == 0 ? agent_connect(i, 1) : -1;

        if (fd < 0 && agents[i] == 0)
            break;
        if (fd < 0)
            continue;
        (void) agent_send(fd, "", -1, -1);
        (void) close(fd);
    }
}

static void standard_restore(const int kept[2])
{
    (void) dup2(kept[0], STDIN_FILENO);
    (void) dup2(kept[1], STDOUT_FILENO);
}
