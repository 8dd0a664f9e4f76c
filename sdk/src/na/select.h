/* SPDX-License-Identifier: BSD-3-Clause */
/* Which plugin and protocol an init string means on this machine. */

#ifndef NA_SELECT_H
#define NA_SELECT_H

#include "na/init_string.h"
#include "na/transport.h"
#include "util/text.h"

/* A protocol of a plugin, as the plugin reported it. */
struct na_offer {
    const struct na_transport *transport;
    char *protocol;
    char *device;
    char *reason;
    int32_t priority;
    bool usable;
    bool node_local;
    bool named_only; /* for choices that name the plugin */
};

struct na_offers {
    size_t count, size;
    struct na_offer *items;
};

/*
 * Asks a plugin for its offers, for one protocol or all (NULL), and appends them. NA_NOMEM when the
 * core itself has no memory, otherwise NA_SUCCESS, and `*plugin_ret` is what the plugin returned.
 */
na_return_t na_offers_add(struct na_offers *offers, const struct na_transport *transport,
                          const char *protocol, na_return_t *plugin_ret);

void na_offers_free(struct na_offers *offers);

/*
 * The offers that a choice of an init string means, in the order in which to try them; also those
 * that are not usable. If there are none, `why` says why, and the code is NA_NOENTRY (no such
 * plugin), NA_NODEV (it cannot be loaded), NA_PROTONOSUPPORT (nobody offers the protocol) or the
 * plugin's. Plugins that could not be asked, while others could, are added to `selection` (NULL for
 * no report).
 */
na_return_t na_select(const struct na_init_choice *choice, struct na_offers *offers,
                      struct na_selection *selection, struct text *why);

#endif /* NA_SELECT_H */
