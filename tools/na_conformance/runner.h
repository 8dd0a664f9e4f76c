/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs checks, each in its own process, and collects the results. */

#ifndef AMALGAM_CONF_RUNNER_H
#define AMALGAM_CONF_RUNNER_H

#include <stdbool.h>
#include <stddef.h>

#include "na_conformance/check.h"
#include "na_conformance/shared.h"

#define CONF_CHECKS_MAX 256

struct conf_result {
    const struct conf_check *check;
    bool wanted;
    bool left_out;    /* excluded by --skip */
    bool interrupted; /* by a signal during the check, which then counts as skipped */
    enum conf_outcome outcome;
    char reason[CONF_REASON_SIZE]; /* why it failed or was skipped, or a note */
    double seconds;
};

struct conf_results {
    struct conf_result items[CONF_CHECKS_MAX];
    size_t count;
};

/* Fills in the checks. `only` is a list of numbers, ids and areas, separated by commas, or NULL
 * for all; `skip` is such a list of checks to leave out, or NULL. False after an error on stderr:
 * an item is unknown. */
bool conf_runner_choose(struct conf_results *results, const char *only, const char *skip);

/* Runs the wanted checks, and calls `done` after each, for progress output. */
bool conf_runner_run(struct conf_results *results, void (*done)(const struct conf_result *result));

/* The file descriptor of the memory that a check's processes share. */
int conf_runner_shared_fd(void);

#endif /* AMALGAM_CONF_RUNNER_H */
