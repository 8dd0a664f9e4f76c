/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peer processes that were started before the test, for networks that do not let others join: each
 * waits at a socket of the folder that AMALGAM_TEST_AGENTS names, is a peer when the test asks for
 * one, and waits again.
 */

#ifndef TRANSPORT_AGENT_H
#define TRANSPORT_AGENT_H

#include <stdbool.h>

#define AGENT_OPTION_MAX 64

/* The test's side. Whether its peers are agents. */
bool agent_is_used(void);

/*
 * Has a free one be a peer that reads from `input` and writes its address to `output`. Returns a
 * descriptor for agent_end(), or -1. All of them are told to end when the test does.
 */
int agent_start(const char *option, int input, int output);

/* Waits until it is no peer any more; true if all was well. */
bool agent_end(int agent);

/* The agent's side: runs `session` with standard input and output of the test, and once with NULL
 * before all others. Returns the exit code of the process, when the test ends. */
int agent_serve(const char *folder, bool (*session)(const char *option));

#endif /* TRANSPORT_AGENT_H */
