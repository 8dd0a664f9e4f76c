/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An extension of the plugin ABI: a description of an offer, before it is opened. hg_info prints
 * it, NA_Plugin_get_offer_details() returns it. Without it there is no description. Since 1.2. The
 * rules at the top of na_plugin.h apply here, too.
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
     * Writes a line without a line feed into `text`, truncated to `size` bytes including its NUL:
     * the version of the library below the plugin, how memory is registered, whether puts and gets
     * need the target. `protocol` and `device` are those of an offer that enumerate reported as
     * usable; the core owns all three. Returns NA_PLUGIN_NODEV when the offer does not exist any
     * more. [any thread] [may not block]
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
