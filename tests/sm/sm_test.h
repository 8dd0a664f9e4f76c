/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the shared-memory transport share, in addition to transport_test.h. */

#ifndef SM_TEST_H
#define SM_TEST_H

#include "transport_test.h"

#define SM_TEST_MESSAGE 4096u

/* Returns a descriptor of the memory of a living endpoint; `name` may be its address. */
int sm_memory_of(const char *name);

/* Returns a counter of the endpoint; fails the test if there is none of that name. */
uint64_t sm_counter(const struct end *end, const char *name);

/* Passes a handle of one endpoint of this process to another one, as if by a message. */
na_mem_handle_t *sm_mem_pass(const struct end *owner, const struct end *user, na_mem_handle_t *mem);

/* Transfers `size` bytes with the owner's memory. Progresses both endpoints, which a copied
 * transfer needs. */
na_return_t sm_transfer(struct end *user, struct end *owner, na_addr_t *owner_addr, bool put,
                        na_mem_handle_t *local, na_mem_handle_t *remote, size_t size);

/* For a function that replaces one of the C library, also for the libraries and plugins. */
#define SM_TEST_EXPORT __attribute__((visibility("default")))

/* Captures the log at `level` and above, from the first call to the second one. The text ends with
 * a NUL. */
void sm_log_catch(const char *level);
void sm_log_caught(char *text, size_t size);

#endif /* SM_TEST_H */
