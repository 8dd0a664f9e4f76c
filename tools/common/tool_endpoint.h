/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints of the tools: opening, their address, and the progress loop. */

#ifndef AMALGAM_TOOL_ENDPOINT_H
#define AMALGAM_TOOL_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include <mercury.h>

/* Writes the library's log to stderr until a signal stops the tool: later errors are a
 * consequence of the signal. */
void tool_endpoint_log(void);

/* Opens an endpoint; info may be NULL. Returns NULL after an error on stderr. */
hg_class_t *tool_endpoint_open(const char *init, bool listen, const struct hg_init_info *info);

/* Reports on stderr that an endpoint could not be opened, and how to find out why. */
void tool_endpoint_error(const char *init);

/* Writes the endpoint's own address; false after an error on stderr. */
bool tool_endpoint_address(hg_class_t *hg_class, char *address, size_t size);

/* True when the transport that was picked reaches processes of this machine only. */
bool tool_endpoint_is_node_local(const na_class_t *na_class);

/* Returns the init string of an origin whose target was opened with init by the same tool:
 * without addresses, which are the target's. The caller frees it; NULL if out of memory. */
char *tool_endpoint_origin_init(const char *init);

/* Returns the init string of a second endpoint beside one that was opened with init, so that no
 * name is used twice: ports are left out, and for a node-local transport hosts, too; other
 * transports keep the host, so that both endpoints are on one network. Options stay. The caller
 * frees it; NULL if out of memory. */
char *tool_endpoint_beside_init(const char *init, bool is_node_local);

/* One round of a service's loop: runs the callbacks of completed operations; if there were none,
 * makes progress, for at most timeout_ms. Between rounds the caller checks what it waits for. */
hg_return_t tool_endpoint_progress(hg_context_t *context, unsigned int timeout_ms);

/* The same for loops that wait for descriptors themselves: never sleeps. *triggered is the number
 * of callbacks that ran; *may_wait says that the context's descriptor can be waited for. */
hg_return_t tool_endpoint_event_round(hg_context_t *context, unsigned int *triggered,
                                      bool *may_wait);

/* Returns HG_SUCCESS for results that only say that nothing happened, else the result. */
hg_return_t tool_endpoint_result(hg_return_t ret);

#endif /* AMALGAM_TOOL_ENDPOINT_H */
