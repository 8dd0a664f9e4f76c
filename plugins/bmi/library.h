/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where the BMI that comes with this plugin can do more than the system's: each of the two has its
 * own file with these functions. The rest of the plugin is written to the interface that both have.
 */

#ifndef BMI_LIBRARY_H
#define BMI_LIBRARY_H

#include "na_plugin.h"

#include <bmi.h>
#include <stdbool.h>
#include <sys/socket.h>

struct library {
    struct BMI_instance *instance; /* the system's BMI is one for the process */
    bool is_open;
};

/* The time for BMI's test functions, in milliseconds: the embedded one has progressed before. */
extern const int library_test_ms;

/* For people. */
extern const char library_name[];

/*
 * Opens BMI to listen at the place, of which port 0 means any, and sets the port in it.
 * NA_PLUGIN_BUSY where a process can do so once only.
 */
int32_t library_open(struct library *library, struct sockaddr_storage *place);
void library_close(struct library *library);

/* What BMI's functions do from now on in this thread concerns this one. */
void library_use(const struct library *library);

/* Progress, if the test functions do not make it. */
int library_progress(void);

/*
 * True: a peer that says HELLO is answered at the address that its HELLO came from, because
 * looking up who has connected to us damages BMI's table of addresses.
 */
extern const bool library_answers_source;

/* A descriptor to wait on, or negative; and whether it is safe to. */
int library_wait_fd(void);
bool library_may_wait(void);

/* The descriptor becomes readable after this time, at the latest. */
void library_wake_in(int ms);

/*
 * 1: a frame may be posted. 0: later, because another waits or there is no connection yet.
 * Negative: there is no way to it.
 */
int library_may_send(BMI_addr_t address);

/*
 * What is sent to it from now on goes where its name says, not to one that connected to us and says
 * that it is it. The system's BMI cannot tell them apart.
 */
void library_dial(BMI_addr_t address);

/* True: the send goes on without its memory, and nobody is told of its end. */
bool library_leave(bmi_op_id_t id);

/* True: the operation goes on, but does not touch its memory any more. */
bool library_detach(bmi_op_id_t id);

#endif /* BMI_LIBRARY_H */
