/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the plugins and protocols that an init string may open on this machine. */

#ifndef NA_SELECT_H
#define NA_SELECT_H

#include "na/init_string.h"
#include "na/transport.h"
#include "util/text.h"

/* A protocol that a plugin offers: a copy of struct na_plugin_offer. */
struct na_offer {
    const struct na_transport *transport;
    char *protocol;
    char *device; /* may be empty */
    char *reason; /* why it is not usable; may be empty */
    int32_t priority;
    bool usable;
    bool node_local;
    bool named_only; /* only for a choice that names the plugin */
};

struct na_offers {
    size_t count, size;
    struct na_offer *items;
};

/*
 * Asks a plugin for its offers of one protocol, or of all (NULL), and appends them. Returns
 * NA_NOMEM if the core has no memory, or else NA_SUCCESS with the plugin's result in `*plugin_ret`.
 */
na_return_t na_offers_add(struct na_offers *offers, const struct na_transport *transport,
                          const char *protocol, na_return_t *plugin_ret);

void na_offers_free(struct na_offers *offers);

/*
 * Lists the offers that match a choice of an init string, in the order in which they are to be
 * tried; those that are not usable come last. If there are none, the reason is appended to `why`,
 * and the result is NA_NOENTRY (no such plugin), NA_NODEV (the plugin cannot be loaded),
 * NA_PROTONOSUPPORT (no plugin offers the protocol) or the plugin's error. Where every plugin is
 * asked, those that cannot list their protocols are added to `selection`, unless that is NULL.
 */
na_return_t na_select(const struct na_init_choice *choice, struct na_offers *offers,
                      struct na_selection *selection, struct text *why);

#endif /* NA_SELECT_H */
