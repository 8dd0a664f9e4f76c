/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a tool to stop. */

#include "common/tool_signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "common/tool_clock.h"
#include "common/tool_message.h"

/* Lock-free, so that signal handlers may write them and all threads may read them. */
static atomic_int signal_received;
static atomic_bool paused;

static void signal_handler(int signal_number);
static void pause_handler(int signal_number);

void tool_signal_install(void)
{
    static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action, before;

    memset(&action, 0, sizeof(action));
    (void) sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++) {
        if (sigaction(stop_signals[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN)
            continue;
        /* No SA_RESTART: a sleeping system call returns. */
        action.sa_handler = signal_handler;
        (void) sigaction(stop_signals[i], &action, NULL);
    }
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGXFSZ, SIG_IGN);
}

void tool_signal_ignore_terminal(void)
{
    (void) signal(SIGINT, SIG_IGN);
    (void) signal(SIGHUP, SIG_IGN);
}

int tool_signal_received(void)
{
    return atomic_load_explicit(&signal_received, memory_order_relaxed);
}

void tool_signal_clear(void)
{
    atomic_store_explicit(&signal_received, 0, memory_order_relaxed);
}

int tool_signal_exit_code(void)
{
    return 128 + tool_signal_received();
}

void tool_signal_note(const char *outcome)
{
    int number = tool_signal_received();

    tool_note("ended by signal %d (%s); %s", number, strsignal(number), outcome);
}

void tool_signal_install_pause(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    (void) sigemptyset(&action.sa_mask);
    action.sa_handler = pause_handler;
    (void) sigaction(SIGUSR1, &action, NULL);
    (void) sigaction(SIGUSR2, &action, NULL);
}

void tool_signal_wait_while_paused(void)
{
    while (atomic_load_explicit(&paused, memory_order_relaxed) && tool_signal_received() == 0)
        tool_clock_sleep_ms(1);
}

static void pause_handler(int signal_number)
{
    atomic_store_explicit(&paused, signal_number == SIGUSR1, memory_order_relaxed);
}

static void signal_handler(int signal_number)
{
    atomic_store_explicit(&signal_received, signal_number, memory_order_relaxed);
}
