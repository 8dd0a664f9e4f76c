/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The differences between the BMI embedded in this plugin and an installed one: library_embedded.c
 * and library_system.c implement these functions. Other files use what both BMIs have.
 */

#ifndef BMI_LIBRARY_H
#define BMI_LIBRARY_H

#include "na_plugin.h"

#include <bmi.h>
#include <stdbool.h>
#include <sys/socket.h>

struct library {
    struct BMI_instance *instance; /* of the embedded BMI; an installed one has one only */
    bool is_open;
};

/* The idle time for BMI's test functions, in ms. For the embedded one: test without progress. */
extern const int library_test_ms;

/* For the log. */
extern const char library_name[];

/*
 * Opens BMI to listen at the place; port 0 means any, and is replaced by the real one.
 * NA_PLUGIN_BUSY if this BMI can be opened only once in a process, and was.
 */
int32_t library_open(struct library *library, struct sockaddr_storage *place);
void library_close(struct library *library);

/* Makes it the instance that BMI's functions use in this thread. */
void library_use(const struct library *library);

/* Makes progress, if the test functions do not. Returns 0 or BMI's error. */
int library_progress(void);

/*
 * True: a HELLO is answered to the address that it came from, because looking up a peer that has
 * connected to us damages the BMI's table of addresses.
 */
extern const bool library_answers_source;

/* A descriptor to wait on, or negative; and whether waiting on it would miss nothing. */
int library_wait_fd(void);
bool library_may_wait(void);

/* Makes the descriptor readable after this time at the latest. */
void library_wake_in(int ms);

/*
 * 1: a frame may be posted. 0: later, because another frame waits or there is no connection yet.
 * Negative: the error by which the address cannot be reached.
 */
int library_may_send(BMI_addr_t address);

/*
 * From now on messages to the address leave by a connection that we make to it, not by one that a
 * peer made and said to be from the address. An installed BMI cannot tell the two apart.
 */
void library_dial(BMI_addr_t address);

/* True: the send goes on with a copy of its memory, and has no completion. */
bool library_leave(bmi_op_id_t id);

/* True: the operation goes on, but no longer uses its memory. */
bool library_detach(bmi_op_id_t id);

#endif /* BMI_LIBRARY_H */
