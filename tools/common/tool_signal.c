/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals that ask a tool to stop. */

#include "common/tool_signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* Lock-free, so that the handler may write and every thread may read it. */
static atomic_int signal_received;

static void signal_handler(int signal_number);

void tool_signal_install(void)
{
    static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    (void) sigemptyset(&action.sa_mask);
    action.sa_handler = signal_handler; /* no SA_RESTART: a sleeping call returns */
    for (size_t i = 0; i < sizeof(stop_signals) / sizeof(stop_signals[0]); i++)
        (void) sigaction(stop_signals[i], &action, NULL);
    action.sa_handler = SIG_IGN;
    (void) sigaction(SIGPIPE, &action, NULL);
    (void) sigaction(SIGXFSZ, &action, NULL);
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

static void signal_handler(int signal_number)
{
    atomic_store_explicit(&signal_received, signal_number, memory_order_relaxed);
}
