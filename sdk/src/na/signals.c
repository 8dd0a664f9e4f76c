/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the program's signal handlers: libraries of fabrics install handlers of their own, some as
 * soon as they are loaded, that end the process or print where it crashed. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr1 */
#endif

#include "na/signals.h"

#include "na/fork.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

pthread_mutex_t na_signals_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int signals_depth; /* of all threads */
static struct sigaction signals_own[NSIG];
static bool signals_known[NSIG]; /* not those that nobody can handle */

static void signals_look(void);
static bool is_same(const struct sigaction *action, const struct sigaction *other);
static bool is_foreign(const struct sigaction *action);
static bool is_put_back(int number);

void na_signals_enter(void)
{
    (void) pthread_mutex_lock(&na_signals_mutex);
    if (signals_depth++ == 0)
        for (int number = 1; number < NSIG; number++)
            signals_known[number] = sigaction(number, NULL, &signals_own[number]) == 0;
    else
        signals_look();
    (void) pthread_mutex_unlock(&na_signals_mutex);
}

void na_signals_leave(void)
{
    (void) pthread_mutex_lock(&na_signals_mutex);
    signals_look();
    signals_depth--;
    (void) pthread_mutex_unlock(&na_signals_mutex);
}

/*
 * Puts back what libraries have changed, and learns what the program has: another thread of it may
 * set handlers meanwhile. Those are told by where they are; a handler in a library of the program
 * is taken for a foreign one if it is set at this moment.
 */
static void signals_look(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;

        if (!signals_known[number] || sigaction(number, NULL, &now) != 0 ||
            is_same(&now, &signals_own[number]))
            continue;
        if (!is_foreign(&now))
            signals_own[number] = now;
        else if (is_put_back(number))
            (void) sigaction(number, &signals_own[number], NULL);
    }
}

static bool is_same(const struct sigaction *action, const struct sigaction *other)
{
    return action->sa_handler == other->sa_handler &&
           (action->sa_flags & SA_SIGINFO) == (other->sa_flags & SA_SIGINFO);
}

/* A function outside of the main program. That a plugin has a signal ignored is its business. */
static bool is_foreign(const struct sigaction *action)
{
    struct link_map *object = NULL;
    Dl_info info;
    void *handler;

    _Static_assert(sizeof(handler) == sizeof(action->sa_handler),
                   "a function's address fits into a pointer");
    if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
        return false;
    memcpy(&handler, &action->sa_handler, sizeof(handler));
    return dladdr1(handler, &info, (void **) &object, RTLD_DL_LINKMAP) == 0 || object == NULL ||
           object->l_name[0] != '\0'; /* only the main program has no name */
}

/*
 * Signals that libraries may send to themselves, such as those of timers, keep a handler that took
 * the place of none: without it the first one would end the process.
 */
static bool is_put_back(int number)
{
    const struct sigaction *own = &signals_own[number];

    if ((own->sa_flags & SA_SIGINFO) != 0 || own->sa_handler != SIG_DFL)
        return true;
    switch (number) {
    case SIGHUP:
    case SIGINT:
    case SIGQUIT:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGSEGV:
    case SIGPIPE:
    case SIGTERM:
    case SIGXCPU:
    case SIGXFSZ:
    case SIGSYS:
        return true;
    default:
        return false;
    }
}
