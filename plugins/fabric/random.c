/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers of the system. */

#include "random.h"

#include "na_plugin.h"

#include <errno.h>
#include <sys/random.h>

/* So few bytes come whole, or not at all. A first word of 0 says elsewhere that there is no key. */
int32_t fabric_key_draw(struct fabric_key *key)
{
    do {
        ssize_t size = getrandom(key, sizeof(*key), 0);

        if (size < 0 && errno == EINTR)
            key->word[0] = 0;
        else if (size != (ssize_t) sizeof(*key))
            return NA_PLUGIN_IO_ERROR;
    } while (key->word[0] == 0);
    return NA_PLUGIN_SUCCESS;
}
