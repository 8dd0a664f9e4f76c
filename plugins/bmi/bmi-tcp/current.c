/* SPDX-License-Identifier: BSD-3-Clause */
/* The current instance of a thread, the log, and error codes. */

#include "tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* For programs that do not use the extensions. */
static struct tcp_instance default_instance;
static _Thread_local struct tcp_instance *current_instance;

struct BMI_instance *BMI_instance_create(BMI_log_fn log)
{
    struct tcp_instance *instance = calloc(1, sizeof(*instance));

    if (instance != NULL)
        instance->log = log;
    return (struct BMI_instance *) instance;
}

void BMI_instance_destroy(struct BMI_instance *instance)
{
    if (current_instance == (struct tcp_instance *) instance)
        current_instance = NULL;
    free(instance);
}

void BMI_instance_use(struct BMI_instance *instance)
{
    current_instance = (struct tcp_instance *) instance;
}

struct tcp_instance *tcp_current(void)
{
    struct tcp_instance *instance = current_instance;

    return tcp_likely(instance != NULL) ? instance : &default_instance;
}

void tcp_log(const struct tcp_instance *instance, int level, const char *format, ...)
{
    char text[512];
    va_list args;

    if (instance->log == NULL)
        return;
    va_start(args, format);
    (void) vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    instance->log(level, text);
}

/* Returns BMI's negative error for one of errno. */
int tcp_error(int error)
{
    static const struct {
        int error;
        int code;
    } table[] = {
        {ENOMEM, BMI_ENOMEM},
        {EINVAL, BMI_EINVAL},
        {EMFILE, BMI_EMFILE},
        {ENFILE, BMI_EMFILE},
        {EPIPE, BMI_EPIPE},
        {EADDRINUSE, BMI_EADDRINUSE},
        {EADDRNOTAVAIL, BMI_EADDRNOTAVAIL},
        {ENETUNREACH, BMI_ENETUNREACH},
        {ENOBUFS, BMI_ENOBUFS},
        {ETIMEDOUT, BMI_ETIMEDOUT},
        {ECONNREFUSED, BMI_ECONNREFUSED},
        {EHOSTUNREACH, BMI_EHOSTUNREACH},
        {EACCES, BMI_EACCES},
        {ECONNRESET, BMI_ECONNRESET},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].error == error)
            return -table[i].code;
    return -BMI_EIO;
}
