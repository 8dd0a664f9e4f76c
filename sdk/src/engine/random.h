/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the system. */
#ifndef HG_ENGINE_RANDOM_H
#define HG_ENGINE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A number that nobody knows; where the system has none, one that no other process has. */
uint64_t hg_random(void);

/* Bytes that nobody knows; false where the system has none. */
bool hg_random_bytes(void *buf, size_t size);

#endif /* HG_ENGINE_RANDOM_H */
