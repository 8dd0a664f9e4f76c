/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: what is to be known of an offer before it is opened. hg_info
 * prints it, NA_Plugin_get_offer_details() has it. Without it nothing is said. Since 1.2. The rules
 * at the top of na_plugin.h hold here, too.
 */

#ifndef NA_PLUGIN_OFFER_DETAILS_H
#define NA_PLUGIN_OFFER_DETAILS_H

#include "na_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The id of this table for get_extension. */
#define NA_PLUGIN_EXT_OFFER_DETAILS "na.offer_details/1"

struct na_plugin_offer_details {
    struct na_plugin_extension extension;

    /*
     * Writes a line without a line feed into `text`, cut where it is longer than `size` bytes with
     * its end: the version of what is below the plugin, how memory is registered, whether puts and
     * gets need the target. `protocol` and `device` are those of an offer that enumerate reported
     * as usable; all three are the core's, for the call. Returns NA_PLUGIN_NODEV when the offer is
     * not there any more. [any thread] [may not block]
     */
    int32_t (*offer_describe)(const char *protocol, const char *device, char *text, uint64_t size);
};

#if UINTPTR_MAX == UINT64_MAX
NA_PLUGIN_ASSERT(offsetof(struct na_plugin_offer_details, offer_describe) == 8);
#endif

#ifdef __cplusplus
}
#endif

#endif /* NA_PLUGIN_OFFER_DETAILS_H */
