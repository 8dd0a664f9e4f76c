/* SPDX-License-Identifier: BSD-3-Clause */
/* Signal handlers belong to the program: opening a transport does not replace them. */

#include "transport_test.h"

#include <na_ext.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void) number;
    (void) info;
    (void) context;
}

/* Gives each signal one of three dispositions in turn. */
static struct sigaction disposition(int number, int shift)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    (void) sigemptyset(&action.sa_mask);
    switch ((number + shift) % 3) {
    case 0:
        action.sa_sigaction = on_signal;
        action.sa_flags = (int) SA_SIGINFO;
        break;
    case 1:
        action.sa_handler = SIG_IGN;
        break;
    default:
        action.sa_handler = SIG_DFL;
    }
    return action;
}

/* Open MPI handles SIGPIPE, since it writes to sockets of ended processes; MPICH uses SIGUSR1. Both
 * replace the default disposition only. */
static bool is_for_mpi(int number, const struct sigaction *expected)
{
    return strncmp(test_init_string(), "mpi", 3) == 0 && (number == SIGPIPE || number == SIGUSR1) &&
           expected->sa_flags == 0 && expected->sa_handler == SIG_DFL;
}

static int count_changed(const char *when, int shift)
{
    int changed = 0;

    for (int number = 1; number < NSIG; number++) {
        struct sigaction expected = disposition(number, shift), action;

        if (number == SIGKILL || number == SIGSTOP || sigaction(number, NULL, &action) != 0)
            continue;
        if (action.sa_handler == expected.sa_handler &&
            (action.sa_flags & (int) SA_SIGINFO) == expected.sa_flags)
            continue;
        if (is_for_mpi(number, &expected))
            continue;
        (void) fprintf(stderr, "signal %d (%s) has another handler %s\n", number, strsignal(number),
                       when);
        changed++;
    }
    return changed;
}

/* Runs in a process of its own, since a library is loaded only once. */
static int run_with(int shift)
{
    struct na_plugin_record *records = NULL;
    na_context_t *context;
    na_class_t *na_class;
    int changed;

    for (int number = 1; number < NSIG; number++) {
        struct sigaction action = disposition(number, shift);

        (void) sigaction(number, &action, NULL); /* fails for signals that cannot be caught */
    }
    na_class = NA_Initialize(test_init_string(), true);
    if (na_class == NULL)
        return 100;
    changed = count_changed("after NA_Initialize()", shift);
    context = NA_Context_create(na_class);
    if (context == NULL)
        return 101;
    changed += count_changed("after NA_Context_create()", shift);
    if (NA_Context_destroy(na_class, context) != NA_SUCCESS || NA_Finalize(na_class) != NA_SUCCESS)
        return 102;
    changed += count_changed("after NA_Finalize()", shift);
    if (!test_is_sm())
        return changed; /* listing loads all plugins and is slow: done for one transport */
    if (NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records) != NA_SUCCESS)
        return 103;
    NA_Plugin_free_records(records);
    return changed + count_changed("after all plugins were listed", shift);
}

static void handlers_stay(void **state)
{
    (void) state;
    for (int shift = 0; shift < 3; shift++) {
        int status = -1;
        pid_t pid = fork();

        if (pid == 0)
            _exit(run_with(shift));
        assert_true(pid > 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handlers_stay),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
