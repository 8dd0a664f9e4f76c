/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers from getrandom(). */
#ifndef HG_ENGINE_RANDOM_H
#define HG_ENGINE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Return an unpredictable number; if getrandom() fails, one derived from time and process id. */
uint64_t hg_random(void);

/* Fill a buffer with unpredictable bytes; false if getrandom() fails. */
bool hg_random_bytes(void *buf, size_t size);

#endif /* HG_ENGINE_RANDOM_H */
