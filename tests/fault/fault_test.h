/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the fault plugin share: wrapped endpoints, and messages in bursts. */

#ifndef FAULT_TEST_H
#define FAULT_TEST_H

#include "na_ext.h"
#include "transport_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BURST_MAX 1024u

/* Opens the transport under test behind the plugin; `options` NULL for none. */
void wrapped_open(struct end *end, const char *options);

/* Destroys the context, which cancels all that is outstanding and calls back. */
void wrapped_stop(struct end *end);

/* Closes it; fails when the plugin completed an operation twice, or left one to the core. */
void wrapped_close(struct end *end);

/* An init string that is refused, with a reason that contains `why`. */
void check_refused(const char *init_string, na_return_t ret, const char *why);

/* Polls and triggers each end once; `second` may be NULL. */
void ends_progress(struct end *first, struct end *second);

/* Progresses both until the event has happened; false when it has not in time. */
bool ends_wait(struct end *first, struct end *second, struct event *event, unsigned int timeout_ms);

/* Messages of one sender, tagged 0.. in the order of the posts. */
struct burst {
    unsigned int sent;
    unsigned int completed;        /* sends */
    unsigned int order[BURST_MAX]; /* tags of the sends in the order of their completion */
    unsigned int failed;           /* of the sends, with an error */
    unsigned int arrived;          /* messages */
    unsigned int tags[BURST_MAX];  /* of these, in the order of arrival */
};

/*
 * Sends `count` messages from `from` to `to`, one after the other without waiting, and receives
 * what arrives until nothing has for `quiet_ms` and all sends have completed.
 */
void burst_run(struct burst *burst, struct end *from, struct end *to, unsigned int count,
               unsigned int quiet_ms);

/* Whether tags only grow. */
bool is_ascending(const unsigned int *tags, unsigned int count);

#endif /* FAULT_TEST_H */
