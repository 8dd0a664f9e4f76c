/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of checks. A number and an id never change their meaning. */

#ifndef AMALGAM_CONF_CHECK_H
#define AMALGAM_CONF_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct conf_check {
    unsigned int number; /* hundreds are areas */
    const char *id;      /* <area>.<promise> */
    const char *text;    /* the promise */
    void (*run)(void);   /* NULL: watched during the other checks */
    unsigned int limit_s;
};

/* Default time limit of a check, not counting the time in which its process waited for a
 * processor; in total at most CONF_LIMIT_FACTOR times as long. */
#define CONF_LIMIT_S      90u
#define CONF_LIMIT_FACTOR 10u

/* The lists end with a number 0. */
extern const struct conf_check conf_checks_watch[]; /* in the order of enum conf_watch */
extern const struct conf_check conf_checks_table[];
extern const struct conf_check conf_checks_class[];
extern const struct conf_check conf_checks_context[];
extern const struct conf_check conf_checks_stop[];
extern const struct conf_check conf_checks_address[];
extern const struct conf_check conf_checks_message[];
extern const struct conf_check conf_checks_receive[];
extern const struct conf_check conf_checks_rma[];
extern const struct conf_check conf_checks_cancel[];
extern const struct conf_check conf_checks_wait[];
extern const struct conf_check conf_checks_thread[];
extern const struct conf_check conf_checks_death[];

/* Check i in the order of numbers; NULL after the last one. */
const struct conf_check *conf_check_at(size_t i);

/* Whether a name is allowed for an option or a counter. */
bool conf_name_is_wellformed(const char *name);

#endif /* AMALGAM_CONF_CHECK_H */
