/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Times of a clock that is never set back, and what is counted with them.
 */
#ifndef MERCURY_TIME_H
#define MERCURY_TIME_H

#include "mercury_util_config.h"

#include <time.h>

/* A time. */
typedef struct timespec hg_time_t;

/* Bytes that hg_time_stamp() needs at most. */
#define HG_UTIL_STAMP_MAX 128

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Tell the time.
 *
 * \param tv [OUT]      time, from some moment in the past
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_time_get_current(hg_time_t *tv);

/**
 * Tell the time to a few milliseconds, of the same clock, which costs less.
 *
 * \param tv [OUT]      time, from some moment in the past
 *
 * \return HG_UTIL_SUCCESS or HG_UTIL_FAIL
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_time_get_current_ms(hg_time_t *tv);

/**
 * \return a time in seconds
 * \param tv [IN]       time
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC double hg_time_to_double(hg_time_t tv);

/**
 * \return time
 * \param d [IN]        seconds
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC hg_time_t hg_time_from_double(double d);

/**
 * \return a time in milliseconds, rounded up
 * \param tv [IN]       time
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC unsigned int hg_time_to_ms(hg_time_t tv);

/**
 * \return time
 * \param ms [IN]       milliseconds
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE hg_time_t hg_time_from_ms(unsigned int ms)
{
    hg_time_t tv;

    tv.tv_sec = ms / 1000;
    tv.tv_nsec = ms % 1000 * 1000000L;
    return tv;
}

/**
 * Compare two times.
 *
 * \param in1 [IN]      time
 * \param in2 [IN]      time
 *
 * \return true if the first one is before the second one
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE bool hg_time_less(hg_time_t in1, hg_time_t in2)
{
    return in1.tv_sec != in2.tv_sec ? in1.tv_sec < in2.tv_sec : in1.tv_nsec < in2.tv_nsec;
}

/**
 * Add two times.
 *
 * \param in1 [IN]      time
 * \param in2 [IN]      time
 *
 * \return sum
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE hg_time_t hg_time_add(hg_time_t in1, hg_time_t in2)
{
    in1.tv_sec += in2.tv_sec;
    in1.tv_nsec += in2.tv_nsec;
    if (in1.tv_nsec >= 1000000000) {
        in1.tv_nsec -= 1000000000;
        in1.tv_sec++;
    }
    return in1;
}

/**
 * Subtract a time from another one.
 *
 * \param in1 [IN]      time
 * \param in2 [IN]      time that is subtracted
 *
 * \return difference
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE hg_time_t hg_time_subtract(hg_time_t in1, hg_time_t in2)
{
    in1.tv_sec -= in2.tv_sec;
    in1.tv_nsec -= in2.tv_nsec;
    if (in1.tv_nsec < 0) {
        in1.tv_nsec += 1000000000;
        in1.tv_sec--;
    }
    return in1;
}

/**
 * Tell how much time is between two others.
 *
 * \param in2 [IN]      the later one
 * \param in1 [IN]      the earlier one
 *
 * \return seconds
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE double hg_time_diff(hg_time_t in2, hg_time_t in1)
{
    return hg_time_to_double(in2) - hg_time_to_double(in1);
}

/**
 * Sleep.
 *
 * \param rqt [IN]      how long
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if a signal ended it or \a rqt is no time
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_time_sleep(const hg_time_t rqt);

/**
 * \return date and time of the day as text, which the calling thread's next call overwrites; NULL
 *         if they are not known
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC char *hg_time_stamp(void);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_TIME_H */
