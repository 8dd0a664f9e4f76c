/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tools that open an endpoint share: opening it, its address, and the progress loop. */

#ifndef AMALGAM_TOOL_ENDPOINT_H
#define AMALGAM_TOOL_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include <mercury.h>

/* What the library logs goes to stderr, but nothing after a signal that stops the tool: what fails
 * then does so because of it. */
void tool_endpoint_log(void);

/* Opens an endpoint; info may be NULL. NULL: said on stderr. */
hg_class_t *tool_endpoint_open(const char *init, bool listen, const struct hg_init_info *info);

/* Says that an endpoint could not be opened, and how to find out why. */
void tool_endpoint_error(const char *init);

/* Writes the endpoint's own address; false: said on stderr. */
bool tool_endpoint_address(hg_class_t *hg_class, char *address, size_t size);

/* True when the transport that was picked reaches processes of this machine only. */
bool tool_endpoint_is_node_local(const na_class_t *na_class);

/* The init string of an origin whose target was opened with init by the same tool: without
 * addresses, which are the target's. The caller frees it; NULL without memory. */
char *tool_endpoint_origin_init(const char *init);

/* The init string of a second endpoint beside one that was opened with init: no name is taken
 * twice. On other transports than those within a node a port is left out, and the host stays, so
 * that both are on one network. Options stay. The caller frees it; NULL without memory. */
char *tool_endpoint_beside_init(const char *init, bool is_node_local);

/* One round of a service's loop: runs the callbacks of what is complete; when there were none,
 * makes progress, for at most timeout_ms. A caller that waits for something looks for it between
 * rounds. */
hg_return_t tool_endpoint_progress(hg_context_t *context, unsigned int timeout_ms);

/* The same for loops that wait for descriptors themselves: never sleeps. *triggered is how many
 * callbacks ran; *may_wait says that the context's descriptor can be waited for now. */
hg_return_t tool_endpoint_event_round(hg_context_t *context, unsigned int *triggered,
                                      bool *may_wait);

/* What a call of the loop returned, of which that nothing happened is no error. */
hg_return_t tool_endpoint_result(hg_return_t ret);

#endif /* AMALGAM_TOOL_ENDPOINT_H */
