/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport: the core's copy of the tables of a loaded plugin that passed all checks. */

#ifndef NA_TRANSPORT_H
#define NA_TRANSPORT_H

#include "na_ext.h"
#include "na_plugin.h"
#include "na_plugin_addr_serialize.h"
#include "na_plugin_counters.h"
#include "na_plugin_mem_alloc.h"
#include "na_plugin_mem_grant.h"
#include "na_plugin_mem_segments.h"
#include "na_plugin_multi_recv.h"
#include "na_plugin_offer_details.h"
#include "na_plugin_peer_events.h"

#define NA_OP_PRIVATE_MAX      (1u << 20) /* bytes of a plugin's part of an operation */
#define NA_OP_ALIGN_MAX        128u       /* alignment of that part */
#define NA_CLASS_NAMES_MAX     16         /* further class names of a plugin */
#define NA_OFFERS_MAX          1024       /* offers of one plugin; further ones are ignored */
#define NA_PLUGIN_TABLE_MAX    65536u     /* bytes of a plugin's table; more is taken for garbage */
#define NA_EXTENSION_TABLE_MAX 65536u     /* the same for the table of an extension */
#define NA_HEADER_SIZE_MAX     4096u      /* bytes of a plugin's message header */
#define NA_MSG_SIZE_MIN        256u       /* bytes that a message must hold beside that header */
#define NA_MSG_SIZE_MAX        (1u << 30) /* bytes of a message, for which HG allocates buffers */
#define NA_RMA_SIZE_MIN        4096u      /* least max_rma_size of a class */

/* Functions that the plugin or its extension lacks are NULL, so no size is checked later. A
 * transport is never freed. */
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
    struct na_plugin_mem_alloc mem_alloc; /* with both functions, or without any */
};

/* Surround calls that load a plugin, list its protocols or open a class: they set
 * NA_Plugin_get_current(), which shows the last of several threads, and keep signal handlers. */
void na_plugin_enter(const char *path);
void na_plugin_leave(void);

/*
 * Checks a plugin's table and copies it to the transport. If the result is not NA_LOADER_LOADED,
 * `reason` gets the rule that is broken. `file_name` is the <name> of na_<name>.so.
 */
enum na_plugin_code na_transport_check(struct na_transport *transport,
                                       const struct na_plugin *plugin, const char *file_name,
                                       char *reason, size_t reason_size);

/* Returns the class name in addresses: the first further one, or else the plugin's name. */
const char *na_transport_class_name(const struct na_transport *transport);

/* Returns whether an init string may call the plugin by this name. */
bool na_transport_has_name(const struct na_transport *transport, const char *name);

#endif /* NA_TRANSPORT_H */
