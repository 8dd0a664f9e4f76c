/* SPDX-License-Identifier: BSD-3-Clause */
/* The forms of the report. */

#ifndef AMALGAM_CONF_REPORT_H
#define AMALGAM_CONF_REPORT_H

#include <stdbool.h>

#include "na_conformance/runner.h"

enum conf_form {
    CONF_FORM_TABLE,
    CONF_FORM_TAP,
    CONF_FORM_JSON
};

/* Report functions: before, after each check (the table shows it at once), and at the end. */
void conf_report_begin(enum conf_form form, const struct conf_results *results);
void conf_report_check(const struct conf_result *result);
bool conf_report_end(enum conf_form form, const struct conf_results *results);

/* Prints the list of checks, without running any. */
bool conf_report_list(enum conf_form form, const struct conf_results *results);

/* Number of wanted checks with an outcome. */
unsigned int conf_report_count(const struct conf_results *results, enum conf_outcome outcome);

#endif /* AMALGAM_CONF_REPORT_H */
