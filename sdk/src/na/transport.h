/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport: what the core keeps of a plugin that is loaded and passed all checks. */

#ifndef NA_TRANSPORT_H
#define NA_TRANSPORT_H

#include "na_ext.h"
#include "na_plugin.h"
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_mem_grant.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_offer_details.h"
#include "na_plugin_peer_events.h"

#define NA_OP_PRIVATE_MAX \
    (1u << 20)                      /* most private bytes that a plugin may want for an operation */
#define NA_OP_ALIGN_MAX        128u /* and their highest alignment */
#define NA_CLASS_NAMES_MAX     16   /* most class names of a plugin, its own not counted */
#define NA_OFFERS_MAX          1024 /* most offers that are looked at for one plugin */
#define NA_PLUGIN_TABLE_MAX    65536u /* above this a table's size is taken for garbage */
#define NA_HEADER_SIZE_MAX     4096u  /* most bytes that a plugin's message header may take */
#define NA_EXTENSION_TABLE_MAX 65536u
#define NA_MSG_SIZE_MIN        256u       /* least content that a message must have room for */
#define NA_MSG_SIZE_MAX        (1u << 30) /* longest message: buffers of this size are allocated */
#define NA_RMA_SIZE_MIN        4096u      /* least limit of one put or get */

/* Functions and extensions that the plugin does not have are NULL: nobody looks at sizes again.
 * Lives as long as the process. */
struct na_transport {
    char *name;
    char *path;
    struct na_plugin table;
    struct na_plugin_mem_segments mem_segments;
    struct na_plugin_multi_recv multi_recv;
    struct na_plugin_addr_serialize addr_serialize;
    struct na_plugin_counters counters;
    struct na_plugin_peer_events peer_events;
    struct na_plugin_offer_details offer_details;
    struct na_plugin_mem_grant mem_grant;
};

/* Around the calls that load, list and open, see NA_Plugin_get_current() and signals.h. Of several
 * threads the last one is shown. */
void na_plugin_enter(const char *path);
void na_plugin_leave(void);

/*
 * Checks a plugin's table and fills in the transport's copy. `reason` says which rule is broken.
 * `file_name` is the <name> of na_<name>.so.
 */
enum na_plugin_code na_transport_check(struct na_transport *transport,
                                       const struct na_plugin *plugin, const char *file_name,
                                       char *reason, size_t reason_size);

/* Class name that appears in addresses: the first further one, or the plugin's name. */
const char *na_transport_class_name(const struct na_transport *transport);

/* Whether an init string may ask for the plugin by this name. */
bool na_transport_has_name(const struct na_transport *transport, const char *name);

#endif /* NA_TRANSPORT_H */
