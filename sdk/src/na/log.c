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

/* What is shown when the library reports that a setting is wrong. */
#define LOG_LEVEL_WORDS "none, error, warning, info or debug"

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
static size_t log_subsys_unknown(const char *list, const char **word_p);
static void log_subsys_check(const char *list);
static void log_wrong_setting(const char *format, ...) NA_PRINTF(1, 2);
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
    char message[LOG_LINE_MAX], whole[LOG_LINE_MAX + 256], line_out[sizeof(whole) + 256];
    va_list args;

    if (format == NULL || !NA_Log_enabled(level, subsys))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    (void) snprintf(whole, sizeof(whole), "# [%d] %s: [%s] %s():%d %s", (int) getpid(),
                    subsys != NULL ? subsys : "amalgam", log_level_names[level],
                    func != NULL ? func : "?", line, message);
    na_log_escape(line_out, sizeof(line_out) - 1, whole);
    strcat(line_out, "\n");
    log_line(level, line_out);
}

void na_log_force(enum na_log_level level, const char *line)
{
    (void) log_level_get();
    log_line(level, line);
}

void na_log_escape(char *out, size_t size, const char *in)
{
    static const char digits[] = "0123456789abcdef";
    size_t length = 0;

    for (bool second = false; *in != '\0' && length + 5 <= size; in++) {
        const unsigned char c = (unsigned char) *in, next = (unsigned char) in[1];
        const bool first = c == 0xc2 && next >= 0x80 && next <= 0x9f;

        if (c >= ' ' && c != 0x7f && !first && !second) {
            out[length++] = (char) c;
            continue;
        }
        second = first;
        out[length++] = '\\';
        out[length++] = 'x';
        out[length++] = digits[c >> 4];
        out[length++] = digits[c & 15];
    }
    out[length] = '\0';
}

void NA_Set_log_level(const char *level)
{
    int value;

    (void) log_level_get();
    value = log_level_parse(level);
    if (value == LOG_LEVEL_UNSET) {
        log_wrong_setting("log level \"%.64s\" is unknown and ignored; use " LOG_LEVEL_WORDS,
                          level != NULL ? level : "");
        return;
    }
    atomic_store_explicit(&log_level, value, memory_order_relaxed);
}

void NA_Set_log_subsys(const char *subsys)
{
    (void) log_level_get();
    if (subsys != NULL && strlen(subsys) >= LOG_SUBSYS_MAX) {
        log_wrong_setting("list of log subsystems is longer than %d characters and ignored",
                          LOG_SUBSYS_MAX - 1);
        return;
    }
    pthread_mutex_lock(&log_mutex);
    log_subsys_store(subsys);
    pthread_mutex_unlock(&log_mutex);
    log_subsys_check(subsys);
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
        log_wrong_setting("log level \"%.64s\" has no stream and is ignored; use error, warning, "
                          "info or debug",
                          level != NULL ? level : "");
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
    /* From here on it can be logged. */
    if (word != NULL && level == LOG_LEVEL_UNSET)
        log_wrong_setting(
            "HG_LOG_LEVEL is \"%.64s\", which is unknown and ignored; use " LOG_LEVEL_WORDS, word);
    if (subsys != NULL && strlen(subsys) >= LOG_SUBSYS_MAX)
        log_wrong_setting("HG_LOG_SUBSYS is longer than %d characters and ignored",
                          LOG_SUBSYS_MAX - 1);
    else
        log_subsys_check(subsys);
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

/* The first word of a list that no subsystem has, and its length; 0: there is none. */
static size_t log_subsys_unknown(const char *list, const char **word_p)
{
    static const char *const known[] = {"hg", "na"};

    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        const char *word = list + (*list == '~');
        const size_t word_length = length - (size_t) (word - list);
        bool found = word_length == 0;

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
            found = found || (word_length >= 2 && strncmp(word, known[i], 2) == 0 &&
                              (word_length == 2 || word[2] == '_'));
        *word_p = word;
        if (!found)
            return word_length;
        list += length;
        list += *list == ',';
    }
    return 0;
}

static void log_subsys_check(const char *list)
{
    const char *word = NULL;
    const size_t length = list != NULL ? log_subsys_unknown(list, &word) : 0;

    if (length > 0)
        log_wrong_setting("log subsystem \"%.*s\" is unknown and matches nothing; use hg, na or "
                          "na_<plugin>, with ~ before it to turn it off",
                          (int) length, word);
}

/* Whatever a list of subsystems hides, that a setting is wrong is shown. */
static void log_wrong_setting(const char *format, ...)
{
    char message[LOG_SUBSYS_MAX + 256], whole[sizeof(message) + 64], escaped[sizeof(whole) + 256];
    va_list args;

    if (!na_log_level_enabled(NA_LOG_LEVEL_WARNING))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    (void) snprintf(whole, sizeof(whole), "# [%d] na: [warning] %s", (int) getpid(), message);
    na_log_escape(escaped, sizeof(escaped) - 1, whole);
    strcat(escaped, "\n");
    log_line(NA_LOG_LEVEL_WARNING, escaped);
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
