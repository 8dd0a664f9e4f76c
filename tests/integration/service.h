/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The small service that integration tests run in several processes: an echo, an RPC that pulls the
 * caller's memory, and one that is never answered.
 */
#ifndef TESTS_INTEGRATION_SERVICE_H
#define TESTS_INTEGRATION_SERVICE_H

#include <mercury.h>
#include <mercury_bulk.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>

#include <stdbool.h>

MERCURY_GEN_PROC(echo_in_t, ((uint64_t) (number))((hg_const_string_t) (text)))
MERCURY_GEN_PROC(echo_out_t, ((uint64_t) (number))((uint64_t) (length)))
MERCURY_GEN_PROC(pull_in_t, ((hg_bulk_t) (memory))((uint32_t) (rounds)))
MERCURY_GEN_PROC(pull_out_t, ((int32_t) (status))((uint64_t) (sum)))

struct service {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_id_t echo, pull, silent;
    unsigned int echoes; /* responses received */
    unsigned int pulls_started, pulls_ok, pulls_failed;
};

/* Opens a class and a context for the init string and registers the RPCs. After false nothing is
 * left open. */
bool service_open(struct service *service, const char *init_string, bool listen);

/* Like service_open(), with an auth_key; NULL: none. */
bool service_open_with_key(struct service *service, const char *init_string, bool listen,
                           const char *key);

/* Closes what service_open opened; false when the library says that something is still in use. */
bool service_close(struct service *service);

/* Progresses and triggers for about `timeout_ms`, or until `*done` is not 0. */
void service_run(struct service *service, const int *done, int timeout_ms);

/* Forwards one echo RPC to `address` and waits for its end; HG_TIMEOUT when it did not end in
 * time. */
hg_return_t service_echo(struct service *service, hg_addr_t address, uint64_t number,
                         const char *text, int timeout_ms);

/* Writes the class's own address to standard output, as a line. */
bool service_print_address(struct service *service);

#endif
