/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of both libraries and of plugins. Its settings are those of the process; the environment
 * is read when they are first used. */

#include "na/log.h"

#include "na/fork.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

#define LOG_SUBSYS_MAX  512
#define LOG_LINE_MAX    2048
#define LOG_WHOLE_MAX   (LOG_LINE_MAX + 256) /* with process, subsystem, level and call site */
#define LOG_LEVEL_UNSET (-1)

/* A place is a call site of the log. It writes at most LOG_PLACE_LINES warnings and errors in a
 * window of LOG_PLACE_SECONDS. */
#define LOG_PLACE_LINES   10u
#define LOG_PLACE_SECONDS 10
#define LOG_PLACES        1024u

struct log_place {
    uint32_t key;    /* hash of function and line; 0: an unused entry */
    uint32_t shown;  /* messages written in the current window */
    uint32_t hidden; /* messages dropped since the last written one */
    time_t begin;    /* of the current window */
};

#define LOG_LEVEL_WORDS "none, error, warning, info or debug"

static const char *const log_level_names[NA_LOG_LEVEL_MAX] = {"none", "error", "warning", "info",
                                                              "debug"};

static atomic_int log_level = LOG_LEVEL_UNSET; /* highest level of any subsystem */
static atomic_bool log_filtered;               /* log_subsys or log_levels is not empty */
static pthread_once_t log_once = PTHREAD_ONCE_INIT;

/* Guards the variables below. Lines are written without it: stdio locks the stream for each. */
pthread_mutex_t na_log_mutex = PTHREAD_MUTEX_INITIALIZER;
static char log_subsys[LOG_SUBSYS_MAX]; /* list of subsystems, each with ~ to turn it off */
static int log_base_level;              /* level of subsystems that log_levels does not name */
static char log_levels[LOG_SUBSYS_MAX]; /* name=level,..., as set */
static struct log_place log_places[LOG_PLACES];
static na_log_func_t log_func;
static FILE *log_streams[NA_LOG_LEVEL_MAX];

static int log_level_get(void);
static void log_read_environment(void);
static int log_level_parse(const char *word, size_t length);
static bool log_levels_parse(const char *setting, int *base_p);
static bool log_levels_set(const char *setting);
static int log_level_of(const char *subsys);
static const char *log_read_setting(char *buf, size_t size);
static void log_apply_environment(void);
static bool log_place_has_room(const char *func, int line, uint32_t *hidden_p, bool *is_last_p);
static struct log_place *log_place_find(const char *func, int line);
static void log_set_filtered(void);
static void log_subsys_set(const char *subsys, const char *what);
static bool log_subsys_shown(const char *subsys);
static bool log_subsys_matches(const char *token, size_t length, const char *subsys);
static size_t log_subsys_unknown(const char *list, bool has_levels, const char **word_p);
static void log_subsys_check(const char *list, bool has_levels);
static void log_wrong_setting(const char *format, ...) NA_PRINTF(1, 2);
static void log_whole(enum na_log_level level, const char *whole);
static void log_line(enum na_log_level level, const char *line);

bool NA_Log_enabled(enum na_log_level level, const char *subsys)
{
    bool shown;

    if ((int) level > log_level_get() || level <= NA_LOG_LEVEL_NONE || level >= NA_LOG_LEVEL_MAX)
        return false;
    if (!atomic_load_explicit(&log_filtered, memory_order_acquire) || subsys == NULL)
        return true;
    pthread_mutex_lock(&na_log_mutex);
    shown = log_subsys_shown(subsys) && (int) level <= log_level_of(subsys);
    pthread_mutex_unlock(&na_log_mutex);
    return shown;
}

bool na_log_level_enabled(enum na_log_level level)
{
    return (int) level <= log_level_get() && level > NA_LOG_LEVEL_NONE && level < NA_LOG_LEVEL_MAX;
}

void NA_Log_write(enum na_log_level level, const char *subsys, const char *func, int line,
                  const char *format, ...)
{
    char message[LOG_LINE_MAX], whole[LOG_WHOLE_MAX];
    char note[96] = "";
    uint32_t hidden = 0;
    bool is_last = false;
    va_list args;

    if (format == NULL || !NA_Log_enabled(level, subsys))
        return;
    /* Peers can cause errors at will, so they are limited, unless level debug is on. */
    if (level <= NA_LOG_LEVEL_WARNING && !NA_Log_enabled(NA_LOG_LEVEL_DEBUG, subsys) &&
        !log_place_has_room(func != NULL ? func : "", line, &hidden, &is_last))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    if (is_last)
        (void) snprintf(note, sizeof(note), " (more from here is left out for some seconds)");
    else if (hidden > 0)
        (void) snprintf(note, sizeof(note), " (%u more from here were left out before)", hidden);
    (void) snprintf(whole, sizeof(whole), "# [%d] %s: [%s] %s():%d %s%s", (int) getpid(),
                    subsys != NULL ? subsys : "amalgam", log_level_names[level],
                    func != NULL ? func : "?", line, message, note);
    log_whole(level, whole);
}

void na_log_force(const char *line)
{
    (void) log_level_get();
    log_line(NA_LOG_LEVEL_INFO, line);
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
    (void) log_level_get();
    if (!log_levels_set(level != NULL ? level : ""))
        log_wrong_setting("log level \"%.200s\" is unknown and ignored; use " LOG_LEVEL_WORDS,
                          level != NULL ? level : "");
}

void NA_Log_reload(void)
{
    (void) log_level_get();
    log_apply_environment();
}

void NA_Set_log_subsys(const char *subsys)
{
    (void) log_level_get();
    log_subsys_set(subsys != NULL ? subsys : "", "list of log subsystems");
}

void NA_Set_log_func(na_log_func_t func)
{
    pthread_mutex_lock(&na_log_mutex);
    log_func = func;
    pthread_mutex_unlock(&na_log_mutex);
}

void NA_Set_log_stream(const char *level, FILE *stream)
{
    int value = level != NULL ? log_level_parse(level, strlen(level)) : LOG_LEVEL_UNSET;

    if (value <= NA_LOG_LEVEL_NONE) {
        log_wrong_setting("log level \"%.64s\" has no stream and is ignored; use error, warning, "
                          "info or debug",
                          level != NULL ? level : "");
        return;
    }
    pthread_mutex_lock(&na_log_mutex);
    log_streams[value] = stream;
    pthread_mutex_unlock(&na_log_mutex);
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
    (void) log_levels_set(log_level_names[NA_LOG_LEVEL_WARNING]);
    log_apply_environment();
}

/* A variable that is not set leaves its setting as it is. */
static void log_apply_environment(void)
{
    char buf[LOG_SUBSYS_MAX];
    const char *setting = log_read_setting(buf, sizeof(buf)), *subsys = getenv("HG_LOG_SUBSYS");

    if (setting != NULL && !log_levels_set(setting))
        log_wrong_setting(
            "HG_LOG_LEVEL is \"%.200s\", which is unknown and ignored; use " LOG_LEVEL_WORDS,
            setting);
    if (subsys != NULL)
        log_subsys_set(subsys, "HG_LOG_SUBSYS");
}

/* Returns the value of HG_LOG_LEVEL, or the first line of the file that it names after '@', or NULL
 * if it is not set or the file cannot be read. */
static const char *log_read_setting(char *buf, size_t size)
{
    const char *setting = getenv("HG_LOG_LEVEL");
    FILE *file;

    if (setting == NULL || setting[0] != '@')
        return setting;
    /* A set-user-ID program reads no file: a message would show the user what it contains. */
    file = getauxval(AT_SECURE) == 0 ? fopen(setting + 1, "re") : NULL;
    if (file == NULL || fgets(buf, (int) size, file) == NULL) {
        log_wrong_setting(
            "HG_LOG_LEVEL is \"%.200s\", a file that cannot be read; what was set stays", setting);
        setting = NULL;
    } else if (strchr(buf, '\n') == NULL && strlen(buf) == size - 1) {
        log_wrong_setting("the first line of HG_LOG_LEVEL \"%.200s\" is longer than %zu characters "
                          "and ignored",
                          setting, size - 2);
        setting = NULL;
    } else {
        buf[strcspn(buf, "\r\n")] = '\0';
        setting = buf;
    }
    if (file != NULL)
        (void) fclose(file);
    return setting;
}

static int log_level_parse(const char *word, size_t length)
{
    for (int level = 0; level < NA_LOG_LEVEL_MAX; level++)
        if (strlen(log_level_names[level]) == length &&
            strncasecmp(word, log_level_names[level], length) == 0)
            return level;
    return LOG_LEVEL_UNSET;
}

/* Parses level,name=level,... in any order, with at most one level without a name, which becomes
 * `*base_p`. Returns false if it is malformed. */
static bool log_levels_parse(const char *setting, int *base_p)
{
    bool has_base = false;

    *base_p = NA_LOG_LEVEL_WARNING;
    do {
        const size_t length = strcspn(setting, ",");
        const size_t name = strcspn(setting, "=,");
        const bool is_named = name < length;
        const char *word = is_named ? setting + name + 1 : setting;
        const int level = log_level_parse(word, length - (size_t) (word - setting));

        if (level == LOG_LEVEL_UNSET || (is_named ? name == 0 : has_base))
            return false;
        if (!is_named)
            *base_p = level;
        has_base = has_base || !is_named;
        setting += length;
    } while (*setting++ == ',');
    return true;
}

/* Returns false, and changes nothing, if the setting is malformed. */
static bool log_levels_set(const char *setting)
{
    int base, highest;

    if (strlen(setting) >= sizeof(log_levels) || !log_levels_parse(setting, &base))
        return false;
    pthread_mutex_lock(&na_log_mutex);
    (void) strcpy(log_levels, strchr(setting, '=') != NULL ? setting : "");
    log_base_level = base;
    highest = base;
    for (const char *word = log_levels; (word = strchr(word, '=')) != NULL;) {
        const int level = log_level_parse(word + 1, strcspn(word + 1, ","));

        highest = level > highest ? level : highest;
        word++;
    }
    log_set_filtered();
    atomic_store_explicit(&log_level, highest, memory_order_relaxed);
    pthread_mutex_unlock(&na_log_mutex);
    log_subsys_check(setting, true);
    return true;
}

/* Returns the level of a subsystem: the last name in log_levels that matches decides. na_log_mutex
 * is held. */
static int log_level_of(const char *subsys)
{
    const char *word = log_levels;
    int level = log_base_level;

    while (*word != '\0') {
        const size_t length = strcspn(word, ","), name = strcspn(word, "=,");

        if (name < length && log_subsys_matches(word, name, subsys))
            level = log_level_parse(word + name + 1, length - name - 1);
        word += length;
        word += *word == ',';
    }
    return level;
}

/* Counts a message of a place. Returns false if the place has written all lines of its window. */
static bool log_place_has_room(const char *func, int line, uint32_t *hidden_p, bool *is_last_p)
{
    struct log_place *place;
    struct timespec now;
    bool has_room = true;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&na_log_mutex);
    place = log_place_find(func, line);
    if (place != NULL) {
        if (place->shown == 0 || now.tv_sec - place->begin >= LOG_PLACE_SECONDS) {
            place->begin = now.tv_sec;
            place->shown = 0;
        }
        has_room = place->shown < LOG_PLACE_LINES;
        if (has_room) {
            *is_last_p = ++place->shown == LOG_PLACE_LINES;
            *hidden_p = place->hidden;
            place->hidden = 0;
        } else {
            place->hidden++;
        }
    }
    pthread_mutex_unlock(&na_log_mutex);
    return has_room;
}

/* Returns the entry of a place, or NULL if the table is full. na_log_mutex is held. */
static struct log_place *log_place_find(const char *func, int line)
{
    uint32_t key = 2166136261u ^ (uint32_t) line;

    for (; *func != '\0'; func++)
        key = (key ^ (uint8_t) *func) * 16777619u;
    key += key == 0;
    for (uint32_t i = 0; i < LOG_PLACES; i++) {
        struct log_place *place = &log_places[(key + i) % LOG_PLACES];

        if (place->key == key)
            return place;
        if (place->key != 0)
            continue;
        place->key = key;
        return place;
    }
    return NULL;
}

/* `what` names the list in the message that it is too long. */
static void log_subsys_set(const char *subsys, const char *what)
{
    if (strlen(subsys) >= LOG_SUBSYS_MAX) {
        log_wrong_setting("%s is longer than %d characters and ignored", what, LOG_SUBSYS_MAX - 1);
        return;
    }
    pthread_mutex_lock(&na_log_mutex);
    (void) strcpy(log_subsys, subsys);
    log_set_filtered();
    pthread_mutex_unlock(&na_log_mutex);
    log_subsys_check(subsys, false);
}

/* na_log_mutex is held. */
static void log_set_filtered(void)
{
    atomic_store_explicit(&log_filtered, log_subsys[0] != '\0' || log_levels[0] != '\0',
                          memory_order_release);
}

/* Returns whether log_subsys lets a subsystem through: the last word that matches decides. If none
 * matches, a list with ~ before each word lets it through. na_log_mutex is held. */
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

/* "na" matches "na" and every subsystem that begins with "na_". */
static bool log_subsys_matches(const char *token, size_t length, const char *subsys)
{
    return length > 0 && strncmp(token, subsys, length) == 0 &&
           (subsys[length] == '\0' || subsys[length] == '_');
}

/*
 * Finds the first name in a list that no subsystem has. Returns its length, or 0 if there is none.
 * With `has_levels` a name ends at '=', and a word without '=' is a level.
 */
static size_t log_subsys_unknown(const char *list, bool has_levels, const char **word_p)
{
    static const char *const known[] = {"hg", "na"};

    while (*list != '\0') {
        const size_t length = strcspn(list, ",");
        const size_t end = has_levels ? strcspn(list, "=,") : length;
        const char *word = list + (!has_levels && *list == '~');
        const size_t word_length = end - (size_t) (word - list);
        bool found = word_length == 0 || (has_levels && end == length);

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

static void log_subsys_check(const char *list, bool has_levels)
{
    const char *word = NULL;
    const size_t length = log_subsys_unknown(list, has_levels, &word);

    if (length > 0)
        log_wrong_setting("log subsystem \"%.*s\" is unknown and matches nothing; use hg, na or "
                          "na_<plugin>%s",
                          (int) length, word,
                          has_levels ? "" : ", with ~ before it to turn it off");
}

/* Writes an error about a setting of the log whatever subsystems are set, unless the level is
 * none. */
static void log_wrong_setting(const char *format, ...)
{
    char message[LOG_SUBSYS_MAX + 256], whole[LOG_WHOLE_MAX];
    va_list args;

    if (!na_log_level_enabled(NA_LOG_LEVEL_ERROR))
        return;
    va_start(args, format);
    (void) vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    (void) snprintf(whole, sizeof(whole), "# [%d] na: [error] %s", (int) getpid(), message);
    log_whole(NA_LOG_LEVEL_ERROR, whole);
}

static void log_whole(enum na_log_level level, const char *whole)
{
    char line[LOG_WHOLE_MAX + 256];

    na_log_escape(line, sizeof(line) - 1, whole);
    strcat(line, "\n");
    log_line(level, line);
}

/* Calls the log function without the lock, so that it may log or change the settings. */
static void log_line(enum na_log_level level, const char *line)
{
    na_log_func_t func;
    FILE *stream;

    pthread_mutex_lock(&na_log_mutex);
    func = log_func;
    stream = log_streams[level] != NULL ? log_streams[level] : stderr;
    pthread_mutex_unlock(&na_log_mutex);
    if (func != NULL)
        (void) func(stream, "%s", line);
    else
        (void) fputs(line, stream);
}
