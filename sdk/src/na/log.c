/* SPDX-License-Identifier: BSD-3-Clause */
/* Logging of both libraries and of plugins: level, subsystems, function and streams of the whole
 * process. Nothing is read or set before the first use. */

#include "na/log.h"

#include "util/compiler.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define LOG_SUBSYS_MAX  512
#define LOG_LINE_MAX    2048
#define LOG_LEVEL_UNSET (-1)

static const char *const log_level_names[NA_LOG_LEVEL_MAX] = {"none", "error", "warning", "info",
                                                              "debug"};

static atomic_int log_level = LOG_LEVEL_UNSET;
static atomic_bool log_filtered;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

/* Guards what follows. Streams keep lines whole by themselves. */
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_subsys[LOG_SUBSYS_MAX];
static na_log_func_t log_func;
static FILE *log_streams[NA_LOG_LEVEL_MAX];

static int log_level_get(void);
static void log_read_environment(void);
static int log_level_parse(const char *word);
static void log_subsys_store(const char *subsys);
static bool log_subsys_shown(const char *subsys);
static bool log_subsys_matches(const char *token, size_t length, const char *subsys);
static void log_line(enum na_log_level level, const char *line);

bool NA_Log_enabled(enum na_log_level level, const char *subsys)
{
    bool shown;

    if ((int) level > log_level_get() || level <= NA_LOG_LEVEL_NONE || level >= NA_LOG_LEVEL_MAX)
        return false;
    if (!atomic_load_explicit(&log_filtered, memory_order_acquire) || subsys == NULL)
        return true;
    pthread_mutex_lock(&log_mutex);
    shown = log_subsys_shown(subsys);
    pthread_mutex_unlock(&log_mutex);
    return shown;
}

bool na_log_level_enabled(enum na_log_level level)
{
    return (int) level <= log_level_get() && level > NA_LOG_LEVEL_NONE && level < NA_LOG_LEVEL_MAX;
}

void NA_Log_write(enum na_log_level level, const char *subsys, const char *func, int line,
                  const char *format, ...)
{
    char message[LOG_LINE_MAX], whole[LOG_LINE_MAX + 256];
    va_list args;

    if (format == NULL || !NA_Log_enabled(level, subsys))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    (void) snprintf(whole, sizeof(whole), "# [%d] %s: [%s] %s():%d %s\n", (int) getpid(),
                    subsys != NULL ? subsys : "amalgam", log_level_names[level],
                    func != NULL ? func : "?", line, message);
    log_line(level, whole);
}

void na_log_force(enum na_log_level level, const char *line)
{
    (void) log_level_get();
    log_line(level, line);
}

void NA_Set_log_level(const char *level)
{
    int value;

    (void) log_level_get();
    value = log_level_parse(level);
    if (value == LOG_LEVEL_UNSET) {
        NA_LOG_WARNING("log level \"%s\" is unknown and ignored; use none, error, warning, info or "
                       "debug",
                       level != NULL ? level : "(null)");
        return;
    }
    atomic_store_explicit(&log_level, value, memory_order_relaxed);
}

void NA_Set_log_subsys(const char *subsys)
{
    (void) log_level_get();
    if (subsys != NULL && strlen(subsys) >= LOG_SUBSYS_MAX) {
        NA_LOG_WARNING("list of log subsystems is longer than %d characters and ignored",
                       LOG_SUBSYS_MAX - 1);
        return;
    }
    pthread_mutex_lock(&log_mutex);
    log_subsys_store(subsys);
    pthread_mutex_unlock(&log_mutex);
}

void NA_Set_log_func(na_log_func_t func)
{
    pthread_mutex_lock(&log_mutex);
    log_func = func;
    pthread_mutex_unlock(&log_mutex);
}

void NA_Set_log_stream(const char *level, FILE *stream)
{
    int value = log_level_parse(level);

    if (value <= NA_LOG_LEVEL_NONE) {
        NA_LOG_WARNING("log level \"%s\" has no stream and is ignored; use error, warning, info or "
                       "debug",
                       level != NULL ? level : "(null)");
        return;
    }
    pthread_mutex_lock(&log_mutex);
    log_streams[value] = stream;
    pthread_mutex_unlock(&log_mutex);
}

static int log_level_get(void)
{
    int level = atomic_load_explicit(&log_level, memory_order_relaxed);

    if (util_unlikely(level == LOG_LEVEL_UNSET)) {
        (void) pthread_once(&log_once, log_read_environment);
        level = atomic_load_explicit(&log_level, memory_order_relaxed);
    }
    return level;
}

static void log_read_environment(void)
{
    const char *word = getenv("HG_LOG_LEVEL"), *subsys = getenv("HG_LOG_SUBSYS");
    int level = word != NULL ? log_level_parse(word) : LOG_LEVEL_UNSET;

    if (subsys != NULL && strlen(subsys) < LOG_SUBSYS_MAX)
        log_subsys_store(subsys);
    atomic_store_explicit(&log_level, level != LOG_LEVEL_UNSET ? level : NA_LOG_LEVEL_WARNING,
                          memory_order_relaxed);
}

static int log_level_parse(const char *word)
{
    if (word != NULL)
        for (int level = 0; level < NA_LOG_LEVEL_MAX; level++)
            if (strcasecmp(word, log_level_names[level]) == 0)
                return level;
    return LOG_LEVEL_UNSET;
}

static void log_subsys_store(const char *subsys)
{
    (void) snprintf(log_subsys, sizeof(log_subsys), "%s", subsys != NULL ? subsys : "");
    atomic_store_explicit(&log_filtered, log_subsys[0] != '\0', memory_order_release);
}

/* The last word that matches decides; without one, a list that only turns off leaves it on. */
static bool log_subsys_shown(const char *subsys)
{
    bool only_off = true, decided = false, shown = false;
    const char *token = log_subsys;

    while (*token != '\0') {
        size_t length = strcspn(token, ",");
        bool off = *token == '~';

        only_off = only_off && (off || length == 0);
        if (log_subsys_matches(token + off, length - off, subsys)) {
            decided = true;
            shown = !off;
        }
        token += length;
        token += *token == ',';
    }
    return decided ? shown : only_off;
}

/* "na" also stands for "na_sm" and all others below it. */
static bool log_subsys_matches(const char *token, size_t length, const char *subsys)
{
    return length > 0 && strncmp(token, subsys, length) == 0 &&
           (subsys[length] == '\0' || subsys[length] == '_');
}

/* Writes without the lock, so that a log function may log or change the settings. */
static void log_line(enum na_log_level level, const char *line)
{
    na_log_func_t func;
    FILE *stream;

    pthread_mutex_lock(&log_mutex);
    func = log_func;
    stream = log_streams[level] != NULL ? log_streams[level] : stderr;
    pthread_mutex_unlock(&log_mutex);
    if (func != NULL)
        (void) func(stream, "%s", line);
    else
        (void) fputs(line, stream);
}
