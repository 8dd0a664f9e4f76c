/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, waiting and peer processes for the tests. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"

#include "na_ext.h"

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

#define SM_CHILDREN 4096

static void sm_child_end(struct sm_child *child);
static bool sm_is_ours(const char *name);

static pid_t sm_children[SM_CHILDREN];
static unsigned int sm_child_count;
static FILE *sm_log;

void sm_end_open(struct sm_end *end, const char *init_string, const struct na_init_info *info)
{
    if (info == NULL)
        end->na_class = NA_Initialize(init_string, true);
    else
        end->na_class = NA_Initialize_opt2(init_string, true, NA_VERSION(6, 0), info);
    assert_non_null(end->na_class);
    end->context = NA_Context_create(end->na_class);
    assert_non_null(end->context);
}

void sm_end_close(struct sm_end *end)
{
    assert_int_equal(NA_Context_destroy(end->na_class, end->context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(end->na_class), NA_SUCCESS);
}

void sm_end_address(const struct sm_end *end, char *address, size_t size)
{
    na_addr_t *self;

    assert_int_equal(NA_Addr_self(end->na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Addr_to_string(end->na_class, address, &size, self), NA_SUCCESS);
    NA_Addr_free(end->na_class, self);
}

na_addr_t *sm_end_lookup(struct sm_end *from, const struct sm_end *to)
{
    char address[128];
    na_addr_t *addr;

    sm_end_address(to, address, sizeof(address));
    assert_int_equal(NA_Addr_lookup(from->na_class, address, &addr), NA_SUCCESS);
    return addr;
}

na_mem_handle_t *sm_mem_open(struct sm_end *end, void *base, size_t size, unsigned long flags)
{
    na_mem_handle_t *mem;

    assert_int_equal(NA_Mem_handle_create(end->na_class, base, size, flags, &mem), NA_SUCCESS);
    assert_int_equal(NA_Mem_register(end->na_class, mem, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    return mem;
}

void sm_mem_close(struct sm_end *end, na_mem_handle_t *mem)
{
    assert_int_equal(NA_Mem_deregister(end->na_class, mem), NA_SUCCESS);
    NA_Mem_handle_free(end->na_class, mem);
}

void sm_event_callback(const struct na_cb_info *info)
{
    struct sm_event *event = info->arg;

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

bool sm_event_wait(struct sm_end *end, struct sm_event *event, unsigned int timeout_ms)
{
    uint64_t until = sm_now_ms() + timeout_ms;

    while (atomic_load(&event->done) == 0) {
        unsigned int count = 0;

        if (sm_now_ms() > until)
            return false;
        (void) NA_Poll_wait(end->na_class, end->context, 20, &count);
        if (count != 0)
            (void) NA_Trigger(end->context, count, NULL);
    }
    return true;
}

void sm_end_progress(struct sm_end *end, unsigned int ms)
{
    struct sm_event never = {0};
    unsigned int count = 0;

    if (ms != 0) {
        (void) sm_event_wait(end, &never, ms);
        return;
    }
    (void) NA_Poll(end->na_class, end->context, &count);
    if (count != 0)
        (void) NA_Trigger(end->context, count, NULL);
}

na_return_t sm_send(struct sm_end *end, na_addr_t *to, const void *buf, size_t size, na_tag_t tag,
                    bool expected)
{
    na_op_id_t *op = NA_Op_create(end->na_class, NA_OP_SINGLE);
    struct sm_event event = {0};
    na_return_t ret;

    if (expected)
        ret = NA_Msg_send_expected(end->na_class, end->context, sm_event_callback, &event, buf,
                                   size, NULL, to, 0, tag, op);
    else
        ret = NA_Msg_send_unexpected(end->na_class, end->context, sm_event_callback, &event, buf,
                                     size, NULL, to, 0, tag, op);
    if (ret == NA_SUCCESS)
        ret = sm_event_wait(end, &event, SM_TEST_WAIT_MS) ? event.ret : NA_TIMEOUT;
    NA_Op_destroy(end->na_class, op);
    return ret;
}

na_return_t sm_call(struct sm_end *end, na_addr_t *to, const void *request, size_t request_size,
                    void *reply, size_t *size_p)
{
    static _Atomic na_tag_t next_tag = 1000;
    na_tag_t tag = atomic_fetch_add(&next_tag, 1);
    na_op_id_t *op = NA_Op_create(end->na_class, NA_OP_SINGLE);
    struct sm_event event = {0};
    na_return_t ret;

    ret = NA_Msg_recv_expected(end->na_class, end->context, sm_event_callback, &event, reply,
                               *size_p, NULL, to, 0, tag, op);
    if (ret == NA_SUCCESS) {
        ret = sm_send(end, to, request, request_size, tag, false);
        if (ret != NA_SUCCESS)
            (void) NA_Cancel(end->na_class, end->context, op);
        if (!sm_event_wait(end, &event, SM_TEST_WAIT_MS)) {
            ret = NA_TIMEOUT;
            (void) NA_Cancel(end->na_class, end->context, op);
            (void) sm_event_wait(end, &event, SM_TEST_WAIT_MS);
        } else if (ret == NA_SUCCESS) {
            ret = event.ret;
        }
    }
    *size_p = event.size;
    NA_Op_destroy(end->na_class, op);
    return ret;
}

na_return_t sm_command(struct sm_end *end, na_addr_t *to, enum sm_command command, uint32_t a,
                       uint64_t b, uint64_t c, void *reply, size_t *size_p)
{
    struct sm_request request = {.command = (uint32_t) command, .a = a, .b = b, .c = c};

    if (reply == NULL)
        return sm_send(end, to, &request, sizeof(request), 0, false);
    return sm_call(end, to, &request, sizeof(request), reply, size_p);
}

void sm_child_start(struct sm_child *child, const char *init_string, const char *option)
{
    int to_child[2], from_child[2];
    size_t length = 0;

    assert_int_equal(pipe2(to_child, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_child, O_CLOEXEC), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) dup2(to_child[0], STDIN_FILENO);
        (void) dup2(from_child[1], STDOUT_FILENO);
        (void) execl(SM_PEER_PATH, SM_PEER_PATH, init_string, option, (char *) NULL);
        _exit(127);
    }
    (void) close(to_child[0]);
    (void) close(from_child[1]);
    child->to_child = to_child[1];
    child->from_child = from_child[0];
    if (sm_child_count < SM_CHILDREN)
        sm_children[sm_child_count++] = child->pid;
    while (length < sizeof(child->address) - 1) {
        ssize_t got = read(child->from_child, child->address + length, 1);

        assert_true(got == 1); /* otherwise the peer did not start */
        if (child->address[length] == '\n')
            break;
        length++;
    }
    child->address[length] = '\0';
}

void sm_child_stop(struct sm_child *child)
{
    int status = 0;

    (void) close(child->to_child);
    child->to_child = -1;
    assert_int_equal(waitpid(child->pid, &status, 0), child->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    sm_child_end(child);
}

void sm_child_kill(struct sm_child *child)
{
    (void) kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    sm_child_end(child);
}

int sm_run_in_child(int (*function)(void *arg), void *arg)
{
    int status = 0;
    pid_t pid;

    (void) fflush(NULL);
    pid = fork();
    if (pid == 0)
        _exit(function(arg));
    if (sm_child_count < SM_CHILDREN)
        sm_children[sm_child_count++] = pid;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return 255;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void sm_check_clean(void)
{
    struct dirent *entry;
    DIR *directory = opendir("/dev/shm");
    unsigned int left = 0;

    assert_non_null(directory);
    while ((entry = readdir(directory)) != NULL) {
        if (!sm_is_ours(entry->d_name))
            continue;
        print_error("left behind: /dev/shm/%s\n", entry->d_name);
        left++;
    }
    (void) closedir(directory);
    assert_int_equal(left, 0);
}

void sm_log_catch(const char *level)
{
    sm_log = tmpfile();
    assert_non_null(sm_log);
    NA_Set_log_level(level);
    NA_Set_log_stream(level, sm_log);
}

void sm_log_caught(char *text, size_t size)
{
    size_t got;

    NA_Set_log_stream("error", NULL);
    NA_Set_log_stream("warning", NULL);
    NA_Set_log_stream("info", NULL);
    NA_Set_log_level("warning");
    rewind(sm_log);
    got = fread(text, 1, size - 1, sm_log);
    text[got] = '\0';
    (void) fclose(sm_log);
}

uint64_t sm_now_ms(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static void sm_child_end(struct sm_child *child)
{
    if (child->to_child >= 0)
        (void) close(child->to_child);
    (void) close(child->from_child);
}

/* Other tests may run on the machine: only names that begin with our processes' ids, or "test-". */
static bool sm_is_ours(const char *name)
{
    char prefix[64];

    (void) snprintf(prefix, sizeof(prefix), "amalgam-sm.%u.", (unsigned) geteuid());
    if (strncmp(name, prefix, strlen(prefix)) != 0)
        return false;
    name += strlen(prefix);
    (void) snprintf(prefix, sizeof(prefix), "%d-", (int) getpid());
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        return true;
    (void) snprintf(prefix, sizeof(prefix), "test%d-", (int) getpid());
    if (strncmp(name, prefix, strlen(prefix)) == 0)
        return true;
    for (unsigned int i = 0; i < sm_child_count; i++) {
        (void) snprintf(prefix, sizeof(prefix), "%d-", (int) sm_children[i]);
        if (strncmp(name, prefix, strlen(prefix)) == 0)
            return true;
    }
    return false;
}
