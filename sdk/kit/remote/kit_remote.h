/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote memory of an endpoint: joins the message layer (kit_msg.h) and the engine for puts and
 * gets (kit_rma.h). The engine's control records are sent as control records of the plugin, and a
 * put or get of the message layer becomes a transfer of the engine. Plugins whose memory handles
 * are plain regions find the memory functions of their table here.
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

/* The type of the engine's control records; the plugin uses other types for its own. */
#define KIT_REMOTE_CONTROL 1u

/* ------------------------------------------------------------------------------------------------
 * Open and close; no other thread uses the endpoint at that time
 */

/*
 * Makes `endpoint->rma` as kit_rma_open() does. Owner (the endpoint), control_size and inline_size
 * of `config` are ignored and set here.
 *
 * NA_PLUGIN_SUCCESS, or an error of kit_rma_open().
 */
int32_t kit_remote_open(struct kit_endpoint *endpoint, const struct kit_rma_config *config);

/*
 * Frees the engine and all memory handles. The fabric was closed before, so that nothing refers to
 * their memory. Allowed without an engine.
 */
void kit_remote_close(struct kit_endpoint *endpoint);

/* ------------------------------------------------------------------------------------------------
 * For struct kit_msg_ops of an endpoint with an engine
 */

/* ops.rma_start: the engine moves the whole put or get. */
int32_t kit_remote_start(struct kit_endpoint *endpoint, struct kit_msg_rma *rma);

/* ops.rma_abandon; returns as kit_rma_abandon(). */
bool kit_remote_abandon(struct kit_endpoint *endpoint, struct kit_msg_rma *rma, int32_t status);

/* ops.control: records of other types, and any without an engine, are dropped. */
void kit_remote_control(struct kit_endpoint *endpoint, struct kit_peer *peer, uint32_t type,
                        const void *data, uint64_t size);

/*
 * Has the engine move `length` bytes from `offset` on, both in bytes, of a put or get whose rest
 * the plugin moves itself. Success: kit_rma_ops.transfer_done follows, or, if `rma->transfer` is
 * NULL, the bytes were moved already. An error: transfer_done is not called.
 */
int32_t kit_remote_start_part(struct kit_endpoint *endpoint, struct kit_msg_rma *rma,
                              uint64_t offset, uint64_t length);

/* ------------------------------------------------------------------------------------------------
 * For struct kit_rma_ops; `owner` is the endpoint, `peer` a struct kit_peer
 */

/* ops.control_send; returns as kit_msg_control_send(). */
int32_t kit_remote_control_send(void *owner, void *peer, const void *data, uint32_t size);

/* ops.transfer_done; `cookie` is the struct kit_msg_rma, which completes with `status`. */
void kit_remote_transfer_done(void *owner, void *cookie, int32_t status);

/* ------------------------------------------------------------------------------------------------
 * Memory
 */

/*
 * Ends the transfers of peers with a region that kit_region_deregister() removed from the table,
 * and polls, for at most `timeout_ns` ns, until its memory is not accessed any more. False: the
 * fabric still accesses it.
 */
bool kit_remote_leave(struct kit_endpoint *endpoint, const struct kit_region *region,
                      uint64_t timeout_ns);

/*
 * Fails the peers whose ended transfers still access that memory, for example of a stopped context.
 * `abort` first ends what the fabric has in flight to or from a peer; NULL: not needed.
 */
void kit_remote_fail_peers(struct kit_endpoint *endpoint, const struct kit_region *region,
                           void (*abort)(struct kit_endpoint *endpoint, struct kit_peer *peer));

/*
 * For the plugin's table, as na_plugin.h specifies, if handles are plain regions that the fabric
 * need not know. They take the lock. Deregistration polls the fabric for up to five seconds while
 * it accesses the memory, and logs an error if it still does after that.
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
 * For the plugin's table: returns na.mem_grant/1, for handles that begin with struct kit_region, or
 * the extensions of kit_msg_get_extension(), which are constants, or NULL.
 */
const void *kit_remote_get_extension(const char *id);

/* The memory functions above, for the initializer of the plugin's table. */
#define KIT_REMOTE_FUNCTIONS                                                              \
    .mem_create = kit_remote_mem_create, .mem_destroy = kit_remote_mem_destroy,           \
    .mem_register = kit_remote_mem_register, .mem_deregister = kit_remote_mem_deregister, \
    .mem_serialize_size = kit_remote_mem_serialize_size,                                  \
    .mem_serialize = kit_remote_mem_serialize, .mem_deserialize = kit_remote_mem_deserialize

#ifdef __cplusplus
}
#endif

#endif /* KIT_REMOTE_H */
