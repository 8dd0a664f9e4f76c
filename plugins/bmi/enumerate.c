/* SPDX-License-Identifier: BSD-3-Clause */
/* The offers of the plugin: TCP, on every machine. */

#include "bmi_na.h"

#include <string.h>

/* Lower than plugins with TCP that need not emulate put and get. */
#define BMI_NA_PRIORITY 10

int32_t bmi_na_enumerate(const char *protocol, na_plugin_offer_fn report, void *arg)
{
    static const struct na_plugin_offer offer = {
        .protocol = BMI_NA_PROTOCOL,
        .priority = BMI_NA_PRIORITY,
        .flags = NA_PLUGIN_OFFER_USABLE,
    };

    if (protocol != NULL && strcmp(protocol, offer.protocol) != 0)
        return NA_PLUGIN_SUCCESS;
    return report(arg, &offer);
}
