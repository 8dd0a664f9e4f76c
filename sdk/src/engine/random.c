/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/random.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t hg_random(void)
{
    struct timespec now = {0, 0};
    uint64_t drawn;

    if (hg_random_bytes(&drawn, sizeof(drawn)))
        return drawn;
    (void) clock_gettime(CLOCK_REALTIME, &now);
    drawn = (uint64_t) now.tv_sec * 1000000007u + (uint64_t) now.tv_nsec;
    return drawn << 22 ^ (uint64_t) getpid();
}

bool hg_random_bytes(void *buf, size_t size)
{
    uint8_t *pos = buf;

    while (size > 0) {
        const ssize_t drawn = getrandom(pos, size, 0);

        if (drawn < 0 && errno != EINTR)
            return false;
        if (drawn < 0)
            continue;
        pos += drawn;
        size -= (size_t) drawn;
    }
    return true;
}
