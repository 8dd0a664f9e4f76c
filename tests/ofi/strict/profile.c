/* SPDX-License-Identifier: BSD-3-Clause */
/* The requirements of each provider, from its manual page (fi_cxi.7, fi_opx.7, fi_gni.7, fi_efa.7).
 * Limits that no page states are small, so that tests reach them. */

#include "strict.h"

#include "../../test_random.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct strict_profile strict_profiles[] = {
    /* The provider may choose the keys; regions are bound to an endpoint. */
    {.name = "cxi",
     .provider = "cxi",
     .device = "cxi0",
     .format = FI_ADDR_CXI,
     .mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
     .inject = 192,
     .queue = 256,
     .message = 1 << 20,
     .regions = 1024,
     .full = FI_ENOSPC,
     .refused = FI_EKEYREJECTED,
     .has_fd = true,
     .is_deferred = true},
    /* The user chooses the keys; offsets instead of addresses; a context for each operation. */
    {.name = "opx",
     .provider = "opx",
     .device = "opx0",
     .format = FI_ADDR_OPX,
     .mode = FI_CONTEXT2,
     .inject = 64,
     .queue = 128,
     .message = 1 << 20,
     .regions = 4096,
     .full = FI_ENOMEM,
     .refused = FI_EACCES},
    /* The old mode of registration (FI_MR_BASIC), and only wait sets to wait on. */
    {.name = "gni",
     .provider = "gni",
     .device = "ipogif0",
     .format = FI_ADDR_GNI,
     .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
     .inject = 64,
     .queue = 64,
     .message = 1 << 20,
     .regions = 192,
     .full = FI_ENOMEM,
     .refused = FI_EACCES,
     .is_deferred = true},
    /* No inject, and local descriptors are required. */
    {.name = "efa",
     .provider = "efa",
     .device = "rdmap0s0",
     .format = FI_ADDR_EFA,
     .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
     .queue = 64,
     .message = 1 << 20,
     .regions = 1024,
     .full = FI_ENOMEM,
     .refused = FI_EACCES,
     .is_deferred = true},
    /*
     * No real provider: all requirements at once, and smaller limits. Without FI_MR_ENDPOINT, whose
     * registrations have to be closed before the endpoint, whereas those of posted receives
     * (FI_MR_LOCAL) are closed after it. Like verbs, but no other profile, it pins the sources of
     * writes for writing.
     */
    {.name = "all",
     .provider = "strict",
     .device = "strict0",
     .format = FI_ADDR_GNI,
     .mode = FI_CONTEXT2,
     .mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
     .inject = 24,
     .queue = 16,
     .message = 65536,
     .regions = 128,
     .full = FI_ENOSPC,
     .refused = FI_EACCES,
     .has_fd = true,
     .is_source_pinned = true},
};

/* The profile that AMALGAM_STRICT_PROFILE names; "all" if it is not set. */
const struct strict_profile *strict_profile(void)
{
    const char *name = getenv("AMALGAM_STRICT_PROFILE");

    for (size_t i = 0; i < sizeof(strict_profiles) / sizeof(strict_profiles[0]); i++)
        if (strcmp(strict_profiles[i].name, name != NULL ? name : "all") == 0)
            return &strict_profiles[i];
    strict_die("AMALGAM_STRICT_PROFILE is '%s', which is no profile", name);
}

/* Returns AMALGAM_STRICT_SEED, or a seed that differs in each run. The seed is printed, so that a
 * run can be repeated. */
uint64_t strict_seed(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t seed;
    static bool is_drawn;
    const char *text = getenv("AMALGAM_STRICT_SEED");

    (void) pthread_mutex_lock(&lock);
    if (!is_drawn) {
        is_drawn = true;
        seed = text != NULL ? strtoull(text, NULL, 0)
                            : (strict_now() ^ (uint64_t) getpid() << 20) & UINT32_MAX;
        (void) fprintf(stderr, "strict provider: profile %s, AMALGAM_STRICT_SEED=%llu\n",
                       strict_profile()->name, (unsigned long long) seed);
    }
    (void) pthread_mutex_unlock(&lock);
    return seed;
}

bool strict_chance(struct strict_domain *domain, uint32_t one_of)
{
    return test_random(&domain->random) % one_of == 0;
}

uint64_t strict_now(void)
{
    struct timespec now;

    (void) clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * UINT64_C(1000000000) + (uint64_t) now.tv_nsec;
}

void strict_die(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void) fputs("strict provider: ", stderr);
    (void) vfprintf(stderr, format, arguments);
    (void) fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void *strict_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        strict_die("no memory");
    return memory;
}
