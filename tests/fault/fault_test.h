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

/* Destroys the context, which cancels all outstanding operations and calls their callbacks. */
void wrapped_stop(struct end *end);

/* Closes the endpoint; fails if the plugin completed an operation twice, or left one to the
 * core. */
void wrapped_close(struct end *end);

/* Requires that the init string is refused, with a reason that contains `why`. */
void check_refused(const char *init_string, na_return_t ret, const char *why);

/* Polls and triggers each end once; `second` may be NULL. */
void ends_progress(struct end *first, struct end *second);

/* Progresses both ends until the event has happened; false when that takes longer than
 * `timeout_ms`. */
bool ends_wait(struct end *first, struct end *second, struct event *event, unsigned int timeout_ms);

/* Messages of one sender, with tags from 0 in the order of posting. */
struct burst {
    unsigned int sent;
    unsigned int completed;        /* completed sends */
    unsigned int order[BURST_MAX]; /* tags of the sends in the order of their completion */
    unsigned int failed;           /* sends that completed with an error */
    unsigned int arrived;          /* received messages */
    unsigned int tags[BURST_MAX];  /* tags of the received messages in the order of arrival */
};

/* Sends `count` messages from `from` to `to` without waiting in between. Receives until all sends
 * have completed and nothing has arrived for `quiet_ms`. */
void burst_run(struct burst *burst, struct end *from, struct end *to, unsigned int count,
               unsigned int quiet_ms);

/* Whether the tags are in ascending order. */
bool is_ascending(const unsigned int *tags, unsigned int count);

#endif /* FAULT_TEST_H */
