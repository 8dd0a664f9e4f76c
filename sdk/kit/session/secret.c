/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes the secret of a class, and logs why that failed. */

#include "kit_session.h"

#include <sodium.h>

int32_t kit_auth_secret_open(const char *plugin, const char *text,
                             struct kit_auth_secret **secret_p)
{
    const int32_t ret = kit_auth_secret_get(text, secret_p);

    if (ret == NA_PLUGIN_NOMEM)
        KIT_LOG(NA_PLUGIN_LOG_ERROR, plugin,
                "no memory to stretch auth_key, which takes %zu MiB for a moment",
                (size_t) (crypto_pwhash_MEMLIMIT_INTERACTIVE >> 20));
    else if (ret != NA_PLUGIN_SUCCESS)
        KIT_LOG(NA_PLUGIN_LOG_ERROR, plugin, "libsodium does not start: auth_key cannot be used");
    return ret;
}
