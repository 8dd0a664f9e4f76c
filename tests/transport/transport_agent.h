/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer processes that are started before the test, for networks that processes cannot join later.
 * Each agent listens at a socket in the folder that AMALGAM_TEST_AGENTS names, acts as a peer when
 * the test requests one, and listens again.
 */

#ifndef TRANSPORT_AGENT_H
#define TRANSPORT_AGENT_H

#include <stdbool.h>

#define AGENT_OPTION_MAX 64

/* The test's side. Whether the peers of this test are agents. */
bool agent_is_used(void);

/*
 * Has a free agent act as a peer that reads from `input` and writes its address to `output`.
 * Returns a descriptor for agent_end(), or -1. When the test process ends, all agents are told to
 * end.
 */
int agent_start(const char *option, int input, int output);

/* Waits until the agent stops being a peer; true on success. */
bool agent_end(int agent);

/* The agent's side: runs `session` with the standard input and output that the test provides, and
 * once with NULL before that. Returns the exit code of the process when the test ends. */
int agent_serve(const char *folder, bool (*session)(const char *option));

#endif /* TRANSPORT_AGENT_H */
