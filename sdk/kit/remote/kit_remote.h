/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory of an endpoint: what joins the message layer (kit_msg.h) and the engine for puts
 * and gets (kit_rma.h). The engine's control records travel among the plugin's own, a put or get of
 * the message layer becomes a transfer of the engine, and the functions for memory of the plugin's
 * table are here for plugins whose handles are regions alone.
 *
 * A plugin calls kit_remote_open() before kit_endpoint_open(), and kit_rma_poll() in ops.poll. It
 * names kit_remote_start, kit_remote_abandon and kit_remote_control in its struct kit_msg_ops, and
 * kit_remote_control_send and kit_remote_transfer_done in its struct kit_rma_ops, or calls them in
 * functions of its own. A struct na_plugin_mem begins with struct kit_region, or is one.
 *
 * Unless a function says that it takes the endpoint's lock, the lock is held. The status codes are
 * those of na_plugin.h. Since 1.1.
 */

#ifndef KIT_REMOTE_H
#define KIT_REMOTE_H

#include "kit_msg.h"
#include "kit_rma.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type of the engine's control records; the plugin's own have others. */
#define KIT_REMOTE_CONTROL 1u

/* ------------------------------------------------------------------------------------------------
 * Life; no other thread knows the endpoint yet, or any more
 */

/*
 * Makes `endpoint->rma` as kit_rma_open() does. Of `config`, which is only read, the owner (the
 * endpoint), control_size and inline_size are set here, whatever they are there.
 *
 * NA_PLUGIN_SUCCESS, or what kit_rma_open() returns.
 */
int32_t kit_remote_open(struct kit_endpoint *endpoint, const struct kit_rma_config *config);

/*
 * Frees it with all memory handles. The fabric is closed, so that nothing refers to their memory.
 * Allowed when there is none.
 */
void kit_remote_close(struct kit_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------
 * For struct kit_msg_ops; an endpoint without an engine has no use for them
 */

/* ops.rma_start: the whole of a put or get. */
int32_t kit_remote_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);

/* ops.rma_abandon; true as kit_rma_abandon() is. */
bool kit_remote_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

/* ops.control: records of other types, and any without an engine, are dropped. */
void kit_remote_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                        const void *data, uint64_t size);

/*
 * Has the engine move `length` bytes from `offset` on, both in bytes, of a put or get of which the
 * plugin does the rest itself. Success: kit_rma_ops.transfer_done follows, or with `rma->transfer`
 * NULL the bytes are there already. An error: nothing follows.
 */
int32_t kit_remote_start_part(struct kit_endpoint *endpoint, struct kit_msg_rma *rma,
                              uint64_t offset, uint64_t length);

/* ------------------------------------------------------------------------------------------------
 * For struct kit_rma_ops; `owner` is the endpoint, `peer` a struct kit_peer
 */

/* ops.control_send: returns what kit_msg_control_send() does. */
int32_t kit_remote_control_send(void *owner, void *peer, const void *data, uint32_t size);

/* `cookie` is the struct kit_msg_rma, which ends with `status`. */
void kit_remote_transfer_done(void *owner, void *cookie, int32_t status);

/* ------------------------------------------------------------------------------------------------
 * Memory
 */

/*
 * Ends what peers do with a region that was taken out of the table by kit_region_deregister():
 * polls the fabric until nothing touches its memory any more, for at most `timeout_ns` ns. False:
 * the fabric has not let go of it.
 */
bool kit_remote_leave(struct kit_endpoint *endpoint, const struct kit_region *region,
                      uint64_t timeout_ns);

/*
 * Fails the peers that were to move bytes of that memory for transfers whose context was stopped,
 * so that they do not any more. `abort` ends what the fabric has under way to or from a peer first;
 * NULL: it needs none.
 */
void kit_remote_fail_peers(struct kit_endpoint *endpoint, const struct kit_region *region,
                           void (*abort)(struct kit_endpoint *endpoint, struct kit_peer *peer));

/*
 * For the plugin's table, as na_plugin.h says, where handles are regions and the fabric wants to
 * know nothing of them. They take the lock. Deregistering polls the fabric for up to five seconds
 * where it does not let go of the memory, and says so in the log when it never does.
 */
int32_t kit_remote_mem_create(struct na_plugin_class *na_class, void *base, uint64_t length,
                              uint32_t flags, struct na_plugin_mem **mem_p);
void kit_remote_mem_destroy(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t kit_remote_mem_register(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                uint32_t mem_type, uint64_t device);
int32_t kit_remote_mem_deregister(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
uint64_t kit_remote_mem_serialize_size(struct na_plugin_class *na_class, struct na_plugin_mem *mem);
int32_t kit_remote_mem_serialize(struct na_plugin_class *na_class, struct na_plugin_mem *mem,
                                 void *buf, uint64_t size);
int32_t kit_remote_mem_deserialize(struct na_plugin_class *na_class, const void *buf, uint64_t size,
                                   struct na_plugin_mem **mem_p);

/*
 * na.mem_grant/1, for handles that begin with struct kit_region, and what kit_msg_get_extension()
 * has, which live as long as the process; else NULL. For the plugin's table.
 */
const void *kit_remote_get_extension(const char *id);

/* These, for the initializer of a table. */
#define KIT_REMOTE_FUNCTIONS                                                              \
    .mem_create = kit_remote_mem_create, .mem_destroy = kit_remote_mem_destroy,           \
    .mem_register = kit_remote_mem_register, .mem_deregister = kit_remote_mem_deregister, \
    .mem_serialize_size = kit_remote_mem_serialize_size,                                  \
    .mem_serialize = kit_remote_mem_serialize, .mem_deserialize = kit_remote_mem_deserialize

#ifdef __cplusplus
}
#endif

#endif /* KIT_REMOTE_H */
