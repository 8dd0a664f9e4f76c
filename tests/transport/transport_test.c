/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, waiting and peer processes for the tests. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "transport_test.h"

#include "transport_agent.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define CHILDREN 4096

static void child_fork(struct child *child, const char *init_string, const char *option, int input,
                       int output);
static void agents_prepare(void);
static void child_note(pid_t pid);
static void child_end(struct child *child);
static bool is_ours(const char *name);

static pid_t children[CHILDREN];
static unsigned int child_count;

const char *test_init_string(void)
{
    const char *string = getenv("AMALGAM_TEST_INIT");

    return string != NULL ? string : "na+sm";
}

bool test_is_sm(void)
{
    return strncmp(test_init_string(), "na+sm", 5) == 0;
}

void test_skip(const char *why)
{
    print_message("skipped: %s: %s\n", test_init_string(), why);
    skip();
}

void end_open(struct end *end, const char *init_string, const struct na_init_info *info)
{
    if (init_string == NULL)
        init_string = test_init_string();
    if (info == NULL)
        end->na_class = NA_Initialize(init_string, true);
    else
        end->na_class = NA_Initialize_opt2(init_string, true, NA_VERSION(6, 0), info);
    assert_non_null(end->na_class);
    /* The buffers of these tests have no room for a header of the transport. */
    assert_int_equal(NA_Msg_get_unexpected_header_size(end->na_class), 0);
    assert_int_equal(NA_Msg_get_expected_header_size(end->na_class), 0);
    end->context = NA_Context_create(end->na_class);
    assert_non_null(end->context);
}

void end_close(struct end *end)
{
    assert_int_equal(NA_Context_destroy(end->na_class, end->context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(end->na_class), NA_SUCCESS);
}

void end_address(const struct end *end, char *address, size_t size)
{
    na_addr_t *self;

    assert_int_equal(NA_Addr_self(end->na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(end->na_class, address, &size, self), NA_SUCCESS);
    NA_Addr_free(end->na_class, self);
}

na_addr_t *end_lookup(struct end *from, const struct end *to)
{
    char address[512];
    na_addr_t *addr;

    end_address(to, address, sizeof(address));
    assert_int_equal(NA_Addr_lookup(from->na_class, address, &addr), NA_SUCCESS);
    return addr;
}

void end_progress(struct end *end, unsigned int ms)
{
    struct event never = {0};
    unsigned int count = 0;

    if (ms != 0) {
        (void) event_wait(end, &never, ms);
        return;
    }
    (void) NA_Poll(end->na_class, end->context, &count);
    if (count != 0)
        (void) NA_Trigger(end->context, count, NULL);
}

na_return_t end_receive_unexpected(struct end *end, struct event *event, void *buf, size_t size,
                                   na_op_id_t *op)
{
    return NA_Msg_recv_unexpected(end->na_class, end->context, event_callback, event, buf, size,
                                  NULL, op);
}

na_return_t end_receive_expected(struct end *end, struct event *event, void *buf, size_t size,
                                 na_addr_t *source, na_tag_t tag, na_op_id_t *op)
{
    return NA_Msg_recv_expected(end->na_class, end->context, event_callback, event, buf, size, NULL,
                                source, 0, tag, op);
}

na_return_t end_send(struct end *end, na_addr_t *to, const void *buf, size_t size, na_tag_t tag,
                     bool expected)
{
    na_op_id_t *op = NA_Op_create(end->na_class, NA_OP_SINGLE);
    struct event event = {0};
    na_return_t ret;

    ret = (expected ? NA_Msg_send_expected : NA_Msg_send_unexpected)(
        end->na_class, end->context, event_callback, &event, buf, size, NULL, to, 0, tag, op);
    if (ret == NA_SUCCESS && !event_wait(end, &event, TEST_WAIT_MS)) {
        (void) NA_Cancel(end->na_class, end->context, op);
        (void) event_wait(end, &event, TEST_WAIT_MS);
        event.ret = NA_TIMEOUT;
    }
    NA_Op_destroy(end->na_class, op);
    return ret == NA_SUCCESS ? event.ret : ret;
}

na_return_t end_call(struct end *end, na_addr_t *to, const void *request, size_t request_size,
                     void *reply, size_t *size_p)
{
    static _Atomic na_tag_t next_tag = 1000;
    na_tag_t tag = atomic_fetch_add(&next_tag, 1);
    na_op_id_t *op = NA_Op_create(end->na_class, NA_OP_SINGLE);
    struct event event = {0};
    na_return_t ret;

    ret = end_receive_expected(end, &event, reply, *size_p, to, tag, op);
    if (ret == NA_SUCCESS) {
        uint64_t until = now_ms() + TEST_WAIT_MS;

        while ((ret = end_send(end, to, request, request_size, tag, false)) == NA_AGAIN &&
               now_ms() < until)
            end_progress(end, 1);
        if (ret != NA_SUCCESS)
            (void) NA_Cancel(end->na_class, end->context, op);
        if (!event_wait(end, &event, TEST_WAIT_MS)) {
            ret = NA_TIMEOUT;
            (void) NA_Cancel(end->na_class, end->context, op);
            (void) event_wait(end, &event, TEST_WAIT_MS);
        } else if (ret == NA_SUCCESS) {
            ret = event.ret;
        }
    }
    *size_p = event.size;
    NA_Op_destroy(end->na_class, op);
    return ret;
}

na_return_t end_command(struct end *end, na_addr_t *to, enum peer_command command, uint32_t a,
                        uint64_t b, uint64_t c, void *reply, size_t *size_p)
{
    struct peer_request request = {.command = (uint32_t) command, .a = a, .b = b, .c = c};

    if (reply == NULL)
        return end_send(end, to, &request, sizeof(request), 0, false);
    return end_call(end, to, &request, sizeof(request), reply, size_p);
}

void end_check_peer(struct end *end, na_addr_t *peer)
{
    struct peer_request reply = {0};
    size_t size = sizeof(reply);

    assert_int_equal(end_command(end, peer, PEER_ECHO, 11, 12, 13, &reply, &size), NA_SUCCESS);
    assert_int_equal(size, sizeof(reply));
    assert_int_equal(reply.a, 11);
    assert_int_equal(reply.c, 13);
}

uint64_t end_peer_count(struct end *end, na_addr_t *peer)
{
    uint64_t counts[2] = {0};
    size_t size = sizeof(counts);

    assert_int_equal(end_command(end, peer, PEER_REPORT, 0, 0, 0, counts, &size), NA_SUCCESS);
    assert_int_equal(size, sizeof(counts));
    assert_int_equal(counts[1], 0);
    return counts[0];
}

void end_await_peer_count(struct end *end, na_addr_t *peer, uint64_t count)
{
    uint64_t until = now_ms() + TEST_WAIT_MS;

    while (end_peer_count(end, peer) != count && now_ms() < until)
        end_progress(end, 1);
    assert_int_equal(end_peer_count(end, peer), count);
}

na_mem_handle_t *mem_open(struct end *end, void *base, size_t size, unsigned long flags)
{
    na_mem_handle_t *mem;

    assert_int_equal(NA_Mem_handle_create(end->na_class, base, size, flags, &mem), NA_SUCCESS);
    assert_int_equal(NA_Mem_register(end->na_class, mem, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    return mem;
}

void mem_close(struct end *end, na_mem_handle_t *mem)
{
    assert_int_equal(NA_Mem_deregister(end->na_class, mem), NA_SUCCESS);
    NA_Mem_handle_free(end->na_class, mem);
}

void event_callback(const struct na_cb_info *info)
{
    struct event *event = info->arg;

    event->ret = info->ret;
    if (info->ret == NA_SUCCESS && info->type == NA_CB_RECV_UNEXPECTED) {
        event->source = info->info.recv_unexpected.source;
        event->tag = info->info.recv_unexpected.tag;
        event->size = info->info.recv_unexpected.actual_buf_size;
    } else if (info->ret == NA_SUCCESS && info->type == NA_CB_RECV_EXPECTED) {
        event->size = info->info.recv_expected.actual_buf_size;
    }
    atomic_fetch_add(&event->done, 1);
}

bool event_wait(struct end *end, struct event *event, unsigned int timeout_ms)
{
    uint64_t until = now_ms() + timeout_ms;

    while (atomic_load(&event->done) == 0) {
        unsigned int count = 0;

        if (now_ms() > until)
            return false;
        (void) NA_Poll_wait(end->na_class, end->context, 1, &count);
        if (count != 0)
            (void) NA_Trigger(end->context, count, NULL);
    }
    return true;
}

void child_start(struct child *child, const char *init_string, const char *option)
{
    int to_child[2], from_child[2];
    size_t length = 0;

    if (init_string == NULL)
        init_string = test_init_string();
    assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_child, O_CLOEXEC), 0);
    child->agent = -1;
    if (agent_is_used()) {
        agents_prepare();
        child->agent = agent_start(option, to_child[0], from_child[1]);
        assert_true(child->agent >= 0);
    } else {
        child_fork(child, init_string, option, to_child[0], from_child[1]);
    }
    (void) close(to_child[0]);
    (void) close(from_child[1]);
    child->to_child = to_child[1];
    child->from_child = from_child[0];
    while (length < sizeof(child->address) - 1) {
        ssize_t got = read(child->from_child, child->address + length, 1);

        assert_true(got == 1); /* otherwise the peer did not start */
        if (child->address[length] == '\n')
            break;
        length++;
    }
    child->address[length] = '\0';
}

void child_stop(struct child *child)
{
    int status = 0;

    (void) close(child->to_child);
    child->to_child = -1;
    if (child->agent >= 0) {
        assert_true(agent_end(child->agent));
        child_end(child);
        return;
    }
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    child_end(child);
}

void child_kill(struct child *child)
{
    assert_int_equal(child->agent, -1); /* an agent cannot be replaced */
    (void) kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    child_end(child);
}

void pair_open(struct child *child, struct end *end, na_addr_t **peer, const char *option)
{
    child_start(child, NULL, option);
    end_open(end, NULL, NULL);
    assert_int_equal(NA_Addr_lookup(end->na_class, child->address, peer), NA_SUCCESS);
}

void pair_close(struct child *child, struct end *end, na_addr_t *peer)
{
    NA_Addr_free(end->na_class, peer);
    end_close(end);
    child_stop(child);
}

int run_in_child(int (*function)(void *arg), void *arg)
{
    int status = 0;
    pid_t pid;

    (void) fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(function(arg));
    child_note(pid);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void check_clean(void)
{
    struct dirent *entry;
    DIR *directory = opendir("/dev/shm");
    unsigned int left = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (!is_ours(entry->d_name))
            continue;
        print_error("left behind: /dev/shm/%s\n", entry->d_name);
        left++;
    }
    (void) closedir(directory);
    assert_int_equal(left, 0);
}

int teardown_clean(void **state)
{
    struct end reaper;

    (void) state;
    end_open(&reaper, NULL, NULL);
    end_close(&reaper);
    check_clean();
    return 0;
}

uint64_t now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void child_fork(struct child *child, const char *init_string, const char *option, int input,
                       int output)
{
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) dup2(input, STDIN_FILENO);
        (void) dup2(output, STDOUT_FILENO);
        (void) execl(TRANSPORT_PEER_PATH, TRANSPORT_PEER_PATH, init_string, option, (char *) NULL);
        _exit(127);
    }
    child_note(child->pid);
}

/* Where peers cannot join later, all processes open the first class together. */
static void agents_prepare(void)
{
    static bool is_prepared;
    struct end first;

    if (is_prepared)
        return;
    is_prepared = true;
    end_open(&first, NULL, NULL);
    end_close(&first);
}

static void child_note(pid_t pid)
{
    if (child_count < CHILDREN)
        children[child_count++] = pid;
}

static void child_end(struct child *child)
{
    if (child->to_child >= 0)
        (void) close(child->to_child);
    (void) close(child->from_child);
}

/* Other tests may run on the machine: only names that begin with "test-" or with the ids of our
 * processes count. */
static bool is_ours(const char *name)
{
    static const char *const plugins[] = {"sm", "ofi"};
    char prefix[64];
    size_t length = 0;

    for (size_t i = 0; i < 2 && length == 0; i++) {
        (void) snprintf(prefix, sizeof(prefix), "amalgam-%s.%u.", plugins[i], (unsigned) geteuid());
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            length = strlen(prefix);
    }
    if (length == 0)
        return false;
    name += length;
    (void) snprintf(prefix, sizeof(prefix), "%d-", (int) getpid());
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        return true;
    (void) snprintf(prefix, sizeof(prefix), "test%d-", (int) getpid());
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        return true;
    for (unsigned int i = 0; i < child_count; i++) {
        (void) snprintf(prefix, sizeof(prefix), "%d-", (int) children[i]);
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}
