/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Debug logs.
 */
#define _GNU_SOURCE
#include "mercury_dlog.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool hg_dlog_lock(struct hg_dlog *d, int trylock);
static void hg_dlog_print_counters(struct hg_dlog *d, int (*print)(FILE *, const char *, ...),
                                   FILE *stream);
static void hg_dlog_print_records(struct hg_dlog *d, int (*print)(FILE *, const char *, ...),
                                  FILE *stream);

struct hg_dlog *hg_dlog_alloc(char *name, unsigned int lesize, int leloop)
{
    struct hg_dlog *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return NULL;
    d->le = calloc(lesize > 0 ? lesize : 1, sizeof(d->le[0]));
    if (d->le == NULL) {
        free(d);
        return NULL;
    }
    (void) snprintf(d->dlog_magic, sizeof(d->dlog_magic), "%s%.7s", HG_DLOG_STDMAGIC,
                    name != NULL ? name : "");
    (void) hg_thread_mutex_init(&d->dlock);
    TAILQ_INIT(&d->cnts32);
    TAILQ_INIT(&d->cnts64);
    d->lesize = lesize;
    d->leloop = leloop;
    d->mallocd = 1;
    return d;
}

void hg_dlog_free(struct hg_dlog *d)
{
    struct hg_dlog_dcount32 *count32;
    struct hg_dlog_dcount64 *count64;

    if (d == NULL)
        return;
    while ((count32 = TAILQ_FIRST(&d->cnts32)) != NULL) {
        TAILQ_REMOVE(&d->cnts32, count32, l);
        free(count32);
    }
    while ((count64 = TAILQ_FIRST(&d->cnts64)) != NULL) {
        TAILQ_REMOVE(&d->cnts64, count64, l);
        free(count64);
    }
    if (d->mallocd) {
        (void) hg_thread_mutex_destroy(&d->dlock);
        free(d->le);
        free(d);
    }
}

void hg_dlog_mkcount32(struct hg_dlog *d, hg_atomic_int32_t **cptr, const char *name,
                       const char *descr)
{
    static hg_atomic_int32_t unnamed; /* what counters are if memory is out */
    struct hg_dlog_dcount32 *count;

    hg_thread_mutex_lock(&d->dlock);
    if (*cptr != NULL)
        goto out;
    TAILQ_FOREACH (count, &d->cnts32, l)
        if (strcmp(count->name, name) == 0)
            break;
    if (count == NULL) {
        count = calloc(1, sizeof(*count));
        if (count == NULL) {
            *cptr = &unnamed;
            goto out;
        }
        count->name = name;
        count->descr = descr;
        hg_atomic_init32(&count->c, 0);
        TAILQ_INSERT_TAIL(&d->cnts32, count, l);
    }
    *cptr = &count->c;

out:
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_rmcount32(struct hg_dlog *d, hg_atomic_int32_t *cptr)
{
    struct hg_dlog_dcount32 *count;

    hg_thread_mutex_lock(&d->dlock);
    TAILQ_FOREACH (count, &d->cnts32, l)
        if (&count->c == cptr)
            break;
    if (count != NULL)
        TAILQ_REMOVE(&d->cnts32, count, l);
    hg_thread_mutex_unlock(&d->dlock);
    free(count);
}

void hg_dlog_mkcount64(struct hg_dlog *d, hg_atomic_int64_t **cptr, const char *name,
                       const char *descr)
{
    static hg_atomic_int64_t unnamed; /* what counters are if memory is out */
    struct hg_dlog_dcount64 *count;

    hg_thread_mutex_lock(&d->dlock);
    if (*cptr != NULL)
        goto out;
    TAILQ_FOREACH (count, &d->cnts64, l)
        if (strcmp(count->name, name) == 0)
            break;
    if (count == NULL) {
        count = calloc(1, sizeof(*count));
        if (count == NULL) {
            *cptr = &unnamed;
            goto out;
        }
        count->name = name;
        count->descr = descr;
        hg_atomic_init64(&count->c, 0);
        TAILQ_INSERT_TAIL(&d->cnts64, count, l);
    }
    *cptr = &count->c;

out:
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_rmcount64(struct hg_dlog *d, hg_atomic_int64_t *cptr)
{
    struct hg_dlog_dcount64 *count;

    hg_thread_mutex_lock(&d->dlock);
    TAILQ_FOREACH (count, &d->cnts64, l)
        if (&count->c == cptr)
            break;
    if (count != NULL)
        TAILQ_REMOVE(&d->cnts64, count, l);
    hg_thread_mutex_unlock(&d->dlock);
    free(count);
}

unsigned int hg_dlog_addlog(struct hg_dlog *d, const char *file, unsigned int line,
                            const char *func, const char *msg, const void *data)
{
    struct hg_dlog_entry *record;
    unsigned int ret = 0;

    hg_thread_mutex_lock(&d->dlock);
    if (d->lestop || d->lesize == 0 || (d->leadds >= d->lesize && !d->leloop))
        goto out;
    record = &d->le[d->lefree];
    record->file = file;
    record->line = line;
    record->func = func;
    record->msg = msg;
    record->data = data;
    (void) hg_time_get_current(&record->time);
    d->lefree = (d->lefree + 1) % d->lesize;
    if (d->leadds < d->lesize)
        d->leadds++;
    ret = 1;

out:
    hg_thread_mutex_unlock(&d->dlock);
    return ret;
}

void hg_dlog_setlogstop(struct hg_dlog *d, int stop)
{
    hg_thread_mutex_lock(&d->dlock);
    d->lestop = stop;
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_resetlog(struct hg_dlog *d)
{
    hg_thread_mutex_lock(&d->dlock);
    d->lefree = 0;
    d->leadds = 0;
    hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump(struct hg_dlog *d, int (*log_func)(FILE *, const char *, ...), FILE *stream,
                  int trylock)
{
    int (*print)(FILE *, const char *, ...) = log_func != NULL ? log_func : fprintf;
    bool is_locked = hg_dlog_lock(d, trylock);

    hg_dlog_print_counters(d, print, stream);
    hg_dlog_print_records(d, print, stream);
    if (is_locked)
        hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump_counters(struct hg_dlog *d, int (*log_func)(FILE *, const char *, ...),
                           FILE *stream, int trylock)
{
    bool is_locked = hg_dlog_lock(d, trylock);

    hg_dlog_print_counters(d, log_func != NULL ? log_func : fprintf, stream);
    if (is_locked)
        hg_thread_mutex_unlock(&d->dlock);
}

void hg_dlog_dump_file(struct hg_dlog *d, const char *base, int addpid, int trylock)
{
    char path[4096];
    FILE *file;
    int len;

    if (addpid)
        len = snprintf(path, sizeof(path), "%s-%d.log", base, (int) getpid());
    else
        len = snprintf(path, sizeof(path), "%s.log", base);
    if (len < 0 || (size_t) len >= sizeof(path))
        return;
    file = fopen(path, "we");
    if (file == NULL) {
        (void) fprintf(stderr, "cannot write the debug log to %s\n", path);
        return;
    }
    hg_dlog_dump(d, NULL, file, trylock);
    (void) fclose(file);
}

/* Whether the lock is had. Without it what is printed may be half of something. */
static bool hg_dlog_lock(struct hg_dlog *d, int trylock)
{
    if (trylock)
        return hg_thread_mutex_try_lock(&d->dlock) == HG_UTIL_SUCCESS;
    hg_thread_mutex_lock(&d->dlock);
    return true;
}

static void hg_dlog_print_counters(struct hg_dlog *d, int (*print)(FILE *, const char *, ...),
                                   FILE *stream)
{
    struct hg_dlog_dcount32 *count32;
    struct hg_dlog_dcount64 *count64;

    if (TAILQ_EMPTY(&d->cnts32) && TAILQ_EMPTY(&d->cnts64))
        return;
    (void) print(stream, "# Counters of %.*s\n",
                 (int) (sizeof(d->dlog_magic) - strlen(HG_DLOG_STDMAGIC)),
                 d->dlog_magic + strlen(HG_DLOG_STDMAGIC));
    TAILQ_FOREACH (count32, &d->cnts32, l)
        (void) print(stream, "# %s: %" PRId32 " [%s]\n", count32->name,
                     hg_atomic_get32(&count32->c), count32->descr);
    TAILQ_FOREACH (count64, &d->cnts64, l)
        (void) print(stream, "# %s: %" PRId64 " [%s]\n", count64->name,
                     hg_atomic_get64(&count64->c), count64->descr);
}

/* From the oldest record to the newest. */
static void hg_dlog_print_records(struct hg_dlog *d, int (*print)(FILE *, const char *, ...),
                                  FILE *stream)
{
    unsigned int first = d->leadds < d->lesize ? 0 : d->lefree;

    (void) print(stream, "# Debug log of %.*s: %u records\n",
                 (int) (sizeof(d->dlog_magic) - strlen(HG_DLOG_STDMAGIC)),
                 d->dlog_magic + strlen(HG_DLOG_STDMAGIC), d->leadds);
    for (unsigned int i = 0; i < d->leadds; i++) {
        const struct hg_dlog_entry *record = &d->le[(first + i) % d->lesize];

        (void) print(stream, "# [%.6f] %s:%u %s()", hg_time_to_double(record->time), record->file,
                     record->line, record->func);
        if (record->msg != NULL)
            (void) print(stream, ": %s", record->msg);
        if (record->data != NULL)
            (void) print(stream, " (%p)", record->data);
        (void) print(stream, "\n");
    }
}
