/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the shared-memory transport share beyond those of all transports. */

#ifndef SM_TEST_H
#define SM_TEST_H

#include "transport_test.h"

#define SM_TEST_MESSAGE 4096u

/* A descriptor of the memory of a living endpoint; `name` may be its address. */
int sm_memory_of(const char *name);

/* For what takes the place of a function of the C library, in the libraries and plugins, too. */
#define SM_TEST_EXPORT __attribute__((visibility("default")))

/* What is logged from the first to the second call, at `level` and above; ends with a NUL. */
void sm_log_catch(const char *level);
void sm_log_caught(char *text, size_t size);

#endif /* SM_TEST_H */
