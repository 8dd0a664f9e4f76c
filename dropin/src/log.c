/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Outlets of the log. What was set for a name is kept, so that it also holds for an outlet of that
 * name that is registered later; each change gives all outlets their levels anew.
 */
#define _GNU_SOURCE
#include "mercury_log.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* What was set for outlets of one name. */
struct hg_log_setting {
    enum hg_log_state state; /* HG_LOG_PASS: nothing */
    enum hg_log_level level; /* HG_LOG_LEVEL_MAX: nothing */
    struct hg_log_setting *next;
    char name[];
};

HG_LOG_OUTLET_DECL(HG_LOG_OUTLET_ROOT_NAME) = HG_LOG_OUTLET_INITIALIZER(hg_all, HG_LOG_ON, NULL,
                                                                        NULL);

static pthread_mutex_t hg_log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t hg_log_once = PTHREAD_ONCE_INIT;
static STAILQ_HEAD(, hg_log_outlet) hg_log_outlets = STAILQ_HEAD_INITIALIZER(hg_log_outlets);
static struct hg_log_setting *hg_log_settings;
static enum hg_log_level hg_log_level = HG_LOG_LEVEL_ERROR;
static hg_log_func_t hg_log_func = fprintf;
static FILE *hg_log_streams[HG_LOG_LEVEL_MAX]; /* NULL: the standard one */

static void hg_log_start(void);
static void hg_log_set_names(const char *log_subsys);
static struct hg_log_setting *hg_log_get_setting(const char *name, size_t len, bool is_made);
static void hg_log_update(void);
static enum hg_log_level hg_log_level_of(const struct hg_log_outlet *outlet);
static FILE *hg_log_stream_of(enum hg_log_level level);

#define X(level, name, short_name, stream) name,
static const char *const hg_log_names[] = {HG_LOG_LEVELS};
#undef X

void hg_log_set_level(enum hg_log_level log_level)
{
    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    hg_log_level = log_level;
    hg_log_update();
    (void) pthread_mutex_unlock(&hg_log_lock);
}

enum hg_log_level hg_log_get_level(void)
{
    enum hg_log_level level;

    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    level = hg_log_level;
    (void) pthread_mutex_unlock(&hg_log_lock);
    return level;
}

void hg_log_set_subsys(const char *log_subsys)
{
    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    hg_log_set_names(log_subsys);
    hg_log_update();
    (void) pthread_mutex_unlock(&hg_log_lock);
}

const char *hg_log_get_subsys(void)
{
    static char text[1024];
    size_t len = 0;

    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    text[0] = '\0';
    for (const struct hg_log_setting *setting = hg_log_settings; setting != NULL;
         setting = setting->next)
        if (setting->state != HG_LOG_PASS && len < sizeof(text))
            len += (size_t) snprintf(text + len, sizeof(text) - len, "%s%s%s", len > 0 ? "," : "",
                                     setting->state == HG_LOG_OFF ? "~" : "", setting->name);
    (void) pthread_mutex_unlock(&hg_log_lock);
    return text;
}

void hg_log_set_subsys_level(const char *subsys, enum hg_log_level log_level)
{
    struct hg_log_setting *setting;

    if (subsys == NULL)
        return;
    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    setting = hg_log_get_setting(subsys, strlen(subsys), true);
    if (setting != NULL)
        setting->level = log_level;
    hg_log_update();
    (void) pthread_mutex_unlock(&hg_log_lock);
}

enum hg_log_level hg_log_name_to_level(const char *log_level)
{
    int level;

    if (log_level == NULL)
        return HG_LOG_LEVEL_NONE;
    for (level = HG_LOG_LEVEL_NONE + 1; level < HG_LOG_LEVEL_MAX; level++)
        if (strcasecmp(log_level, hg_log_names[level]) == 0)
            return (enum hg_log_level) level;
    return HG_LOG_LEVEL_NONE;
}

const char *hg_log_level_to_string(enum hg_log_level level)
{
    return (unsigned int) level < HG_LOG_LEVEL_MAX ? hg_log_names[level] : "";
}

void hg_log_set_func(hg_log_func_t log_func)
{
    (void) pthread_mutex_lock(&hg_log_lock);
    hg_log_func = log_func != NULL ? log_func : fprintf;
    (void) pthread_mutex_unlock(&hg_log_lock);
}

hg_log_func_t hg_log_get_func(void)
{
    hg_log_func_t func;

    (void) pthread_mutex_lock(&hg_log_lock);
    func = hg_log_func;
    (void) pthread_mutex_unlock(&hg_log_lock);
    return func;
}

void hg_log_set_stream_error(FILE *stream)
{
    (void) pthread_mutex_lock(&hg_log_lock);
    hg_log_streams[HG_LOG_LEVEL_FATAL] = stream;
    hg_log_streams[HG_LOG_LEVEL_ERROR] = stream;
    (void) pthread_mutex_unlock(&hg_log_lock);
}

FILE *hg_log_get_stream_error(void)
{
    return hg_log_stream_of(HG_LOG_LEVEL_ERROR);
}

void hg_log_set_stream_warning(FILE *stream)
{
    (void) pthread_mutex_lock(&hg_log_lock);
    hg_log_streams[HG_LOG_LEVEL_WARNING] = stream;
    (void) pthread_mutex_unlock(&hg_log_lock);
}

FILE *hg_log_get_stream_warning(void)
{
    return hg_log_stream_of(HG_LOG_LEVEL_WARNING);
}

void hg_log_set_stream_debug(FILE *stream)
{
    (void) pthread_mutex_lock(&hg_log_lock);
    for (int level = HG_LOG_LEVEL_MIN_DEBUG; level < HG_LOG_LEVEL_MAX; level++)
        hg_log_streams[level] = stream;
    (void) pthread_mutex_unlock(&hg_log_lock);
}

FILE *hg_log_get_stream_debug(void)
{
    return hg_log_stream_of(HG_LOG_LEVEL_DEBUG);
}

void hg_log_outlet_register(struct hg_log_outlet *outlet)
{
    (void) pthread_once(&hg_log_once, hg_log_start);
    (void) pthread_mutex_lock(&hg_log_lock);
    if (!outlet->registered) {
        outlet->registered = true;
        STAILQ_INSERT_TAIL(&hg_log_outlets, outlet, entry);
        outlet->level = hg_log_level_of(outlet);
    }
    (void) pthread_mutex_unlock(&hg_log_lock);
}

void hg_log_outlet_deregister(struct hg_log_outlet *outlet)
{
    (void) pthread_mutex_lock(&hg_log_lock);
    if (outlet->registered) {
        STAILQ_REMOVE(&hg_log_outlets, outlet, hg_log_outlet, entry);
        outlet->registered = false;
    }
    (void) pthread_mutex_unlock(&hg_log_lock);
    if (outlet->debug_log != NULL && !outlet->debug_log->mallocd)
        hg_dlog_free(outlet->debug_log);
}

void hg_log_dump_counters(struct hg_log_outlet *hg_log_outlet)
{
    if (hg_log_outlet->debug_log != NULL)
        hg_dlog_dump_counters(hg_log_outlet->debug_log, hg_log_get_func(),
                              hg_log_get_stream_debug(), 0);
}

void hg_log_write(struct hg_log_outlet *hg_log_outlet, enum hg_log_level log_level,
                  const char *module, const char *file, unsigned int line, const char *func,
                  bool no_return, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    hg_log_vwrite(hg_log_outlet, log_level, module, file, line, func, no_return, format, ap);
    va_end(ap);
}

void hg_log_vwrite(struct hg_log_outlet *hg_log_outlet, enum hg_log_level log_level,
                   const char *module, const char *file, unsigned int line, const char *func,
                   bool no_return, const char *format, va_list ap)
{
    hg_log_func_t print = hg_log_get_func();
    FILE *stream = hg_log_stream_of(log_level);
    struct hg_dlog *debug_log = hg_log_outlet->debug_log;
    char text[1024];
    hg_time_t now;

    if (stream == NULL)
        return;
    (void) hg_time_get_current(&now);
    (void) vsnprintf(text, sizeof(text), format, ap);
    (void) print(stream, "# [%.6f] %s%s%s: [%s] %s:%u: %s: %s%s", hg_time_to_double(now),
                 hg_log_outlet->name, module != NULL ? "/" : "", module != NULL ? module : "",
                 hg_log_level_to_string(log_level), file != NULL ? file : "-", line,
                 func != NULL ? func : "-", text, no_return ? "" : "\n");

    /* What led to an error, where it was kept for that. */
    if (log_level == HG_LOG_LEVEL_ERROR && debug_log != NULL &&
        hg_log_outlet->level >= HG_LOG_LEVEL_MIN_DEBUG) {
        hg_dlog_dump(debug_log, print, stream, 0);
        hg_dlog_resetlog(debug_log);
    }
}

/* Takes what the environment says, and registers the outlet that all others come from. */
static void hg_log_start(void)
{
    const char *level = getenv("HG_LOG_LEVEL");

    (void) pthread_mutex_lock(&hg_log_lock);
    if (level != NULL)
        hg_log_level = hg_log_name_to_level(level);
    hg_log_set_names(getenv("HG_LOG_SUBSYS"));
    HG_LOG_OUTLET(HG_LOG_OUTLET_ROOT_NAME).registered = true;
    STAILQ_INSERT_HEAD(&hg_log_outlets, &HG_LOG_OUTLET(HG_LOG_OUTLET_ROOT_NAME), entry);
    hg_log_update();
    (void) pthread_mutex_unlock(&hg_log_lock);
}

static void hg_log_set_names(const char *log_subsys)
{
    for (const char *name = log_subsys; name != NULL && *name != '\0';) {
        bool is_off = *name == '~';
        size_t len;

        name += is_off ? 1 : 0;
        len = strcspn(name, ",");
        if (len > 0) {
            struct hg_log_setting *setting = hg_log_get_setting(name, len, true);

            if (setting != NULL)
                setting->state = is_off ? HG_LOG_OFF : HG_LOG_ON;
        }
        name += len;
        name += *name == ',' ? 1 : 0;
    }
}

/* What was set for a name; NULL if nothing was and it is not to be made, or memory is out. */
static struct hg_log_setting *hg_log_get_setting(const char *name, size_t len, bool is_made)
{
    struct hg_log_setting **link = &hg_log_settings;

    for (; *link != NULL; link = &(*link)->next)
        if (strncmp((*link)->name, name, len) == 0 && (*link)->name[len] == '\0')
            return *link;
    if (!is_made)
        return NULL;
    *link = calloc(1, sizeof(**link) + len + 1);
    if (*link != NULL) {
        (*link)->state = HG_LOG_PASS;
        (*link)->level = HG_LOG_LEVEL_MAX;
        memcpy((*link)->name, name, len);
    }
    return *link;
}

static void hg_log_update(void)
{
    struct hg_log_outlet *outlet;

    STAILQ_FOREACH(outlet, &hg_log_outlets, entry)
    outlet->level = hg_log_level_of(outlet);
}

static enum hg_log_level hg_log_level_of(const struct hg_log_outlet *outlet)
{
    const struct hg_log_setting *setting;
    enum hg_log_state state;

    /* A parent may be registered later than its parts, so its own level does not count. */
    for (; outlet != NULL; outlet = outlet->parent) {
        setting = hg_log_get_setting(outlet->name, strlen(outlet->name), false);
        if (setting != NULL && setting->level != HG_LOG_LEVEL_MAX)
            return setting->level;
        state = setting != NULL && setting->state != HG_LOG_PASS ? setting->state : outlet->state;
        if (state != HG_LOG_PASS)
            return state == HG_LOG_ON ? hg_log_level : HG_LOG_LEVEL_NONE;
    }
    return hg_log_level;
}

static FILE *hg_log_stream_of(enum hg_log_level level)
{
#define X(level_name, name, short_name, stream) stream,
    FILE **const standard[] = {HG_LOG_LEVELS};
#undef X
    FILE *stream;

    if ((unsigned int) level >= HG_LOG_LEVEL_MAX || standard[level] == NULL)
        return NULL;
    (void) pthread_mutex_lock(&hg_log_lock);
    stream = hg_log_streams[level];
    (void) pthread_mutex_unlock(&hg_log_lock);
    return stream != NULL ? stream : *standard[level];
}
