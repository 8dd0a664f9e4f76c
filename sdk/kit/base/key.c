/* SPDX-License-Identifier: BSD-3-Clause */
/* Random keys. */

#include "kit_base.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static int32_t random_fill(void *bytes, size_t size);

int32_t kit_key_draw(struct kit_key *key)
{
    int32_t ret;

    do {
        ret = random_fill(key, sizeof(*key));
    } while (ret == NA_PLUGIN_SUCCESS && key->word[0] == 0);
    return ret;
}

int32_t kit_key_take(struct kit_keys *keys, struct kit_key *key)
{
    do {
        if (keys->left == 0) {
            int32_t ret = random_fill(keys->keys, sizeof(keys->keys));

            if (ret != NA_PLUGIN_SUCCESS)
                return ret;
            keys->left = KIT_KEYS;
        }
        *key = keys->keys[--keys->left];
        memset(&keys->keys[keys->left], 0, sizeof(*key));
    } while (key->word[0] == 0);
    return NA_PLUGIN_SUCCESS;
}

/* getrandom returns up to 256 bytes completely or not at all. */
static int32_t random_fill(void *bytes, size_t size)
{
    ssize_t got;

    do {
        got = getrandom(bytes, size, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t) size ? NA_PLUGIN_SUCCESS : NA_PLUGIN_IO_ERROR;
}
