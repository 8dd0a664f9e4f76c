/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps the program's signal handlers: libraries of fabrics install their own, some as soon as they
 * are loaded, which end the process or print where it crashed. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr1 */
#endif

#include "na/signals.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

pthread_mutex_t na_signals_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned int signals_depth;         /* calls in progress, of all threads */
static struct sigaction signals_own[NSIG]; /* the program's handlers */
static bool signals_known[NSIG];           /* false for internal signals of libc */

static void signals_restore(void);
static bool is_same(const struct sigaction *action, const struct sigaction *other);
static bool is_foreign(const struct sigaction *action);
static bool is_to_restore(int number);

void na_signals_enter(void)
{
    (void) pthread_mutex_lock(&na_signals_mutex);
    if (signals_depth++ == 0)
        for (int number = 1; number < NSIG; number++)
            signals_known[number] = sigaction(number, NULL, &signals_own[number]) == 0;
    else
        signals_restore();
    (void) pthread_mutex_unlock(&na_signals_mutex);
}

void na_signals_leave(void)
{
    (void) pthread_mutex_lock(&na_signals_mutex);
    signals_restore();
    signals_depth--;
    (void) pthread_mutex_unlock(&na_signals_mutex);
}

/*
 * Restores the handlers that libraries have replaced. Another thread of the program may set a
 * handler meanwhile; it is kept if it is a function of the main program. One in a shared library of
 * the program cannot be told from a fabric's, and is replaced by the previous handler.
 */
static void signals_restore(void)
{
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;

        if (!signals_known[number] || sigaction(number, NULL, &now) != 0 ||
            is_same(&now, &signals_own[number]))
            continue;
        if (!is_foreign(&now))
            signals_own[number] = now;
        else if (is_to_restore(number))
            (void) sigaction(number, &signals_own[number], NULL);
    }
}

static bool is_same(const struct sigaction *action, const struct sigaction *other)
{
    return action->sa_handler == other->sa_handler &&
           (action->sa_flags & SA_SIGINFO) == (other->sa_flags & SA_SIGINFO);
}

/* Returns whether the handler is a function outside of the main program. SIG_DFL and SIG_IGN are
 * not: a plugin may set them. */
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
 * Returns whether a replaced handler is to be restored. A library may send itself some signals, for
 * instance those of timers: if the program had no handler for one, the library's stays, because
 * without it that signal would end the process.
 */
static bool is_to_restore(int number)
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
