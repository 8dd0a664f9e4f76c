/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs each check in its own process: a crash, a hang or a broken heap does not affect the
 * others. */

#include "na_conformance/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"
#include "common/tool_process.h"
#include "common/tool_signal.h"
#include "na_conformance/load.h"

static bool is_chosen(const struct conf_check *check, const char *word, size_t length);
static bool choose_all(struct conf_results *results, const char *words, const char *option);
static bool choose(struct conf_results *results, const char *word, size_t length, bool left_out);
static void run_one(struct conf_results *results, struct conf_result *result);
static void run_in_child(const struct conf_check *check, pid_t parent);
static void keep_report_clean(void);
static bool wait_for_child(pid_t pid, unsigned int limit_s, int *status);
static void judge(struct conf_result *result, bool ended, int status, unsigned int limit_s);
static void collect_watches(struct conf_results *results, const struct conf_result *from);
static void finish_watches(struct conf_results *results);
static void clean_up(void);

static int shared_fd = -1;

bool conf_runner_choose(struct conf_results *results, const char *only, const char *skip)
{
    memset(results, 0, sizeof(*results));
    for (const struct conf_check *check;
         results->count < CONF_CHECKS_MAX && (check = conf_check_at(results->count)) != NULL;) {
        struct conf_result *result = &results->items[results->count++];

        result->check = check;
        result->wanted = only == NULL;
    }
    return choose_all(results, only, "--only") && choose_all(results, skip, "--skip");
}

bool conf_runner_run(struct conf_results *results, void (*done)(const struct conf_result *result))
{
    shared_fd = memfd_create("na_conformance", MFD_CLOEXEC);
    if (shared_fd < 0 || ftruncate(shared_fd, sizeof(*conf_shared)) != 0)
        goto error;
    conf_shared =
        mmap(NULL, sizeof(*conf_shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    if (conf_shared == MAP_FAILED)
        goto error;
    for (size_t i = 0; i < results->count && tool_signal_received() == 0; i++) {
        struct conf_result *result = &results->items[i];

        if (!result->wanted || result->check->run == NULL)
            continue;
        if (!result->left_out)
            run_one(results, result);
        if (done != NULL)
            done(result);
    }
    finish_watches(results);
    clean_up();
    return true;

error:
    tool_error("no memory to share with the processes of checks: %s", strerror(errno));
    return false;
}

int conf_runner_shared_fd(void)
{
    return shared_fd;
}

static bool choose_all(struct conf_results *results, const char *words, const char *option)
{
    while (words != NULL && *words != '\0') {
        const size_t length = strcspn(words, ",");

        if (!choose(results, words, length, strcmp(option, "--skip") == 0)) {
            tool_error("%s: there is no check '%.*s'; --list shows them", option, (int) length,
                       words);
            return false;
        }
        words += length + (words[length] == ',');
    }
    return true;
}

static bool choose(struct conf_results *results, const char *word, size_t length, bool left_out)
{
    bool found = false;

    for (size_t i = 0; i < results->count; i++) {
        struct conf_result *result = &results->items[i];

        if (!is_chosen(result->check, word, length))
            continue;
        found = true;
        if (!left_out) {
            result->wanted = true;
            continue;
        }
        result->left_out = true;
        result->outcome = CONF_SKIP;
        (void) snprintf(result->reason, sizeof(result->reason), "left out by --skip");
    }
    return found;
}

/* Whether a word is the check's number, id, or the area that its id begins with. */
static bool is_chosen(const struct conf_check *check, const char *word, size_t length)
{
    char number[16];

    (void) snprintf(number, sizeof(number), "%u", check->number);
    if (strlen(number) == length && strncmp(number, word, length) == 0)
        return true;
    return length > 0 && strncmp(check->id, word, length) == 0 &&
           (check->id[length] == '\0' || check->id[length] == '.');
}

static void run_one(struct conf_results *results, struct conf_result *result)
{
    const unsigned int limit_s =
        conf_patience * (result->check->limit_s != 0 ? result->check->limit_s : CONF_LIMIT_S);
    const uint64_t from = tool_clock_ns();
    const pid_t parent = getpid();
    int status = 0;
    bool ended;
    pid_t pid;

    memset(conf_shared, 0, sizeof(*conf_shared));
    (void) fflush(NULL);
    pid = fork();
    if (pid == 0)
        run_in_child(result->check, parent);
    if (pid < 0) {
        result->outcome = CONF_FAIL;
        (void) snprintf(result->reason, sizeof(result->reason), "no process for it: %s",
                        strerror(errno));
        return;
    }
    (void) setpgid(pid, pid);
    ended = wait_for_child(pid, limit_s, &status);
    (void) kill(-pid, SIGKILL); /* ends peers that the check left running */
    if (!ended)
        (void) waitpid(pid, NULL, 0);
    result->seconds = tool_clock_to_seconds(tool_clock_ns() - from);
    judge(result, ended, status, limit_s);
    collect_watches(results, result);
}

/* Runs the check in the child process; does not return. */
static void run_in_child(const struct conf_check *check, pid_t parent)
{
    (void) setpgid(0, 0);
    (void) tool_process_die_with_parent(parent, SIGKILL);
    tool_signal_ignore_terminal();
    keep_report_clean();
    check->run();
    conf_unload();
    conf_pass();
    _exit(0);
}

/* Redirects stdout to stderr, because a plugin may print to it. */
static void keep_report_clean(void)
{
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        (void) close(STDOUT_FILENO);
}

static bool wait_for_child(pid_t pid, unsigned int limit_s, int *status)
{
    const uint64_t from = tool_clock_ns(), limit = limit_s * TOOL_NS_PER_S;

    while (tool_signal_received() == 0) {
        const uint64_t took = tool_clock_ns() - from;

        if (took > limit &&
            (took > CONF_LIMIT_FACTOR * limit || took - limit > conf_run_delay_ns(pid)))
            break;
        if (tool_process_wait(pid, 200, status))
            return true;
    }
    (void) kill(pid, SIGKILL);
    return false;
}

static void judge(struct conf_result *result, bool ended, int status, unsigned int limit_s)
{
    const uint32_t call = atomic_load(&conf_shared->call);
    char how[128];

    result->outcome = (enum conf_outcome) atomic_load(&conf_shared->check.outcome);
    (void) snprintf(result->reason, sizeof(result->reason), "%s", conf_shared->check.reason);
    result->interrupted = !ended && tool_signal_received() != 0;
    if (result->interrupted) {
        result->outcome = CONF_SKIP;
        (void) snprintf(result->reason, sizeof(result->reason), "it was interrupted");
    } else if (!ended) {
        result->outcome = CONF_FAIL;
        (void) snprintf(result->reason, sizeof(result->reason),
                        "it did not end in %u s, and was last seen in %s", limit_s,
                        conf_call_name(call));
    } else if (WIFSIGNALED(status) || result->outcome == CONF_NONE) {
        result->outcome = CONF_FAIL;
        tool_process_describe(status, how, sizeof(how));
        (void) snprintf(result->reason, sizeof(result->reason), "the process %s in %s", how,
                        conf_call_name(call));
    }
}

/* Copies broken watched promises to the results, with the first check that broke each. */
static void collect_watches(struct conf_results *results, const struct conf_result *from)
{
    for (size_t i = 0; i < CONF_WATCHES; i++) {
        struct conf_result *watch = &results->items[i];

        if (atomic_load(&conf_shared->watches[i].outcome) != CONF_FAIL)
            continue;
        if (watch->left_out || watch->outcome == CONF_FAIL)
            continue;
        watch->wanted = true;
        watch->outcome = CONF_FAIL;
        (void) snprintf(watch->reason, sizeof(watch->reason), "in %s: %.400s", from->check->id,
                        conf_shared->watches[i].reason);
    }
}

static void finish_watches(struct conf_results *results)
{
    bool ran = false;

    for (size_t i = CONF_WATCHES; i < results->count; i++)
        ran =
            ran || results->items[i].outcome == CONF_PASS || results->items[i].outcome == CONF_FAIL;
    for (size_t i = 0; i < CONF_WATCHES; i++) {
        struct conf_result *watch = &results->items[i];

        if (watch->outcome != CONF_NONE)
            continue;
        watch->outcome = ran ? CONF_PASS : CONF_SKIP;
        if (!ran)
            (void) snprintf(watch->reason, sizeof(watch->reason), "nothing ran to be watched");
    }
}

/* Has the plugin remove what killed processes left behind, if it can. */
static void clean_up(void)
{
    const pid_t parent = getpid();
    int status;
    pid_t pid;

    memset(conf_shared, 0, sizeof(*conf_shared));
    (void) fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void) tool_process_die_with_parent(parent, SIGKILL);
        keep_report_clean();
        conf_load();
        conf_unload();
        _exit(0);
    }
    if (pid > 0 && !wait_for_child(pid, 20, &status))
        (void) waitpid(pid, NULL, 0);
}
