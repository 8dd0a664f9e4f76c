/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A debug log: the last things that happened, and counters, kept in memory and printed when
 * something has gone wrong.
 */
#ifndef MERCURY_DLOG_H
#define MERCURY_DLOG_H

#include "mercury_atomic.h"
#include "mercury_queue.h"
#include "mercury_thread_mutex.h"
#include "mercury_time.h"

#include <stdio.h>

/* What a debug log begins with, so that it is found in the image of a process that died. */
#define HG_DLOG_MAGICLEN 16
#define HG_DLOG_STDMAGIC ">D.LO.G<"

/* A record. */
struct hg_dlog_entry {
    const char *file;
    unsigned int line;
    const char *func;
    const char *msg;  /* may be NULL */
    const void *data; /* may be NULL */
    hg_time_t time;
};

/* A counter of 32 bits. */
struct hg_dlog_dcount32 {
    const char *name;
    const char *descr;
    hg_atomic_int32_t c;
    TAILQ_ENTRY(hg_dlog_dcount32) l; /* in the log's list */
};

/* A counter of 64 bits. */
struct hg_dlog_dcount64 {
    const char *name;
    const char *descr;
    hg_atomic_int64_t c;
    TAILQ_ENTRY(hg_dlog_dcount64) l; /* likewise */
};

/* A debug log. Its fields are here for HG_DLOG_INITIALIZER alone. */
struct hg_dlog {
    char dlog_magic[HG_DLOG_MAGICLEN];
    hg_thread_mutex_t dlock;
    TAILQ_HEAD(, hg_dlog_dcount32) cnts32; /* counters of 32 bits, */
    TAILQ_HEAD(, hg_dlog_dcount64) cnts64; /* and of 64 */
    struct hg_dlog_entry *le;              /* records */
    unsigned int lesize;                   /* records that it takes */
    int leloop;                            /* overwrite the oldest one when it is full */
    unsigned int lefree;                   /* where the next one goes */
    unsigned int leadds;                   /* how many there are */
    int lestop;                            /* take no more */
    int mallocd;                           /* made by hg_dlog_alloc() */
};

/* Initializer of a variable that is a debug log: its name in at most 8 bytes, the variable itself,
 * an array of records, its length, and whether the oldest record is overwritten. */
#define HG_DLOG_INITIALIZER(NAME, VARNAME, LE, LESIZE, LELOOP)                                  \
    {                                                                                           \
        HG_DLOG_STDMAGIC NAME, HG_THREAD_MUTEX_INITIALIZER,                                     \
            TAILQ_HEAD_INITIALIZER((VARNAME).cnts32), TAILQ_HEAD_INITIALIZER((VARNAME).cnts64), \
            LE, LESIZE, LELOOP, 0, 0, 0, 0,                                                     \
    }

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Make a debug log.
 *
 * \param name [IN]     its name, of which 8 bytes are kept
 * \param lesize [IN]   records that it has room for
 * \param leloop [IN]   not 0 to overwrite the oldest record when there is no room
 *
 * \return debug log, to be freed by hg_dlog_free(); NULL if memory is out
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC struct hg_dlog *hg_dlog_alloc(char *name, unsigned int lesize, int leloop);

/**
 * Free what a debug log has allocated, itself included if hg_dlog_alloc() made it.
 *
 * \param d [IN]        debug log that nobody uses any more, NULL is allowed
 *
 * One thread, after all others are done with the log. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_free(struct hg_dlog *d);

/**
 * Find a counter of 32 bits, or make it.
 *
 * \param d [IN]        debug log
 * \param cptr [IN,OUT] where to put the counter; nothing is done if one is there already. If memory
 *                      is out it is one that no dump shows
 * \param name [IN]     its name, a word; not copied
 * \param descr [IN]    what it counts; not copied
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_mkcount32(struct hg_dlog *d, hg_atomic_int32_t **cptr, const char *name,
                                      const char *descr);

/**
 * Remove a counter of 32 bits that nobody uses any more.
 *
 * \param d [IN]        debug log
 * \param cptr [IN]     counter
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_rmcount32(struct hg_dlog *d, hg_atomic_int32_t *cptr);

/**
 * Find a counter of 64 bits, or make it.
 *
 * \param d [IN]        debug log
 * \param cptr [IN,OUT] where to put the counter; nothing is done if one is there already. If memory
 *                      is out it is one that no dump shows
 * \param name [IN]     its name, a word; not copied
 * \param descr [IN]    what it counts; not copied
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_mkcount64(struct hg_dlog *d, hg_atomic_int64_t **cptr, const char *name,
                                      const char *descr);

/**
 * Remove a counter of 64 bits that nobody uses any more.
 *
 * \param d [IN]        debug log
 * \param cptr [IN]     counter
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_rmcount64(struct hg_dlog *d, hg_atomic_int64_t *cptr);

/**
 * Add a record. Its strings are not copied.
 *
 * \param d [IN]        debug log
 * \param file [IN]     where in the source
 * \param line [IN]     where in the source
 * \param func [IN]     where in the source
 * \param msg [IN]      text, may be NULL
 * \param data [IN]     pointer to print, may be NULL
 *
 * \return 1 if it was added, 0 if there is no room or the log is stopped
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC unsigned int hg_dlog_addlog(struct hg_dlog *d, const char *file, unsigned int line,
                                           const char *func, const char *msg, const void *data);

/**
 * Stop a debug log, or let it go on.
 *
 * \param d [IN]        debug log
 * \param stop [IN]     not 0 to take no more records
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_setlogstop(struct hg_dlog *d, int stop);

/**
 * Forget all records; counters keep their values.
 *
 * \param d [IN]        debug log
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_resetlog(struct hg_dlog *d);

/**
 * Print counters and records.
 *
 * \param d [IN]        debug log
 * \param log_func [IN] prints; NULL for fprintf()
 * \param stream [IN]   where to
 * \param trylock [IN]  not 0 to print also if another thread has the lock, as after a crash
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_dump(struct hg_dlog *d, int (*log_func)(FILE *, const char *, ...),
                                 FILE *stream, int trylock);

/**
 * Print counters.
 *
 * \param d [IN]        debug log
 * \param log_func [IN] prints; NULL for fprintf()
 * \param stream [IN]   where to
 * \param trylock [IN]  not 0 to print also if another thread has the lock, as after a crash
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_dump_counters(struct hg_dlog *d,
                                          int (*log_func)(FILE *, const char *, ...), FILE *stream,
                                          int trylock);

/**
 * Print counters and records to a file, <base>.log or <base>-<pid>.log.
 *
 * \param d [IN]        debug log
 * \param base [IN]     begin of the file's path
 * \param addpid [IN]   not 0 to add the process's id
 * \param trylock [IN]  not 0 to print also if another thread has the lock, as after a crash
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC void hg_dlog_dump_file(struct hg_dlog *d, const char *base, int addpid, int trylock);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_DLOG_H */
