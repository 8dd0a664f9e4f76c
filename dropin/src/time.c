/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks, and what of the conversions is not worth inlining.
 */
#define _GNU_SOURCE
#include "mercury_time.h"

int hg_time_get_current(hg_time_t *tv)
{
    return clock_gettime(CLOCK_MONOTONIC, tv) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

int hg_time_get_current_ms(hg_time_t *tv)
{
    return clock_gettime(CLOCK_MONOTONIC_COARSE, tv) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

double hg_time_to_double(hg_time_t tv)
{
    return (double) tv.tv_sec + (double) tv.tv_nsec * 1e-9;
}

hg_time_t hg_time_from_double(double d)
{
    hg_time_t tv;

    tv.tv_sec = (time_t) d;
    tv.tv_nsec = (long) ((d - (double) tv.tv_sec) * 1e9);
    return tv;
}

unsigned int hg_time_to_ms(hg_time_t tv)
{
    return (unsigned int) (tv.tv_sec * 1000 + (tv.tv_nsec + 999999) / 1000000);
}

int hg_time_sleep(const hg_time_t rqt)
{
    return nanosleep(&rqt, NULL) == 0 ? HG_UTIL_SUCCESS : HG_UTIL_FAIL;
}

char *hg_time_stamp(void)
{
    static _Thread_local char text[HG_UTIL_STAMP_MAX];
    time_t now = time(NULL);
    struct tm local;

    if (localtime_r(&now, &local) == NULL)
        return NULL;
    return strftime(text, sizeof(text), "%a, %d %b %Y %T %Z", &local) > 0 ? text : NULL;
}
