/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the system. */
#include "hg/hg_internal.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t hg_random(void)
{
    struct timespec now = {0, 0};
    uint64_t drawn;
    ssize_t size;

    do {
        size = getrandom(&drawn, sizeof(drawn), 0);
    } while (size < 0 && errno == EINTR);
    if (size == (ssize_t) sizeof(drawn))
        return drawn;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    drawn = (uint64_t) now.tv_sec * 1000000007u + (uint64_t) now.tv_nsec;
    return drawn << 22 ^ (uint64_t) getpid();
}
