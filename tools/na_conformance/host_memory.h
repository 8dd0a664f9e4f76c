/* SPDX-License-Identifier: BSD-3-Clause */
/* The host table's memory functions. */

#ifndef AMALGAM_CONF_HOST_MEMORY_H
#define AMALGAM_CONF_HOST_MEMORY_H

#include <stdint.h>

void *conf_memory_alloc(uint64_t size, uint64_t align);
void conf_memory_free(void *ptr);

#endif /* AMALGAM_CONF_HOST_MEMORY_H */
