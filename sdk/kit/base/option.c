/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings of the init structure, and options of the init string (the core checks their names). */

#include "kit_base.h"

#include <string.h>

const char *kit_init_auth_key_also(const struct na_plugin_init *init)
{
    const size_t end = offsetof(struct na_plugin_init, auth_key_also) + sizeof(init->auth_key_also);

    return init->size >= end ? init->auth_key_also : NULL;
}

bool kit_init_encrypts(const struct na_plugin_init *init)
{
    const size_t end = offsetof(struct na_plugin_init, encrypt) + sizeof(init->encrypt);

    return init->size >= end && init->encrypt != 0;
}

bool kit_init_mem_per_session(const struct na_plugin_init *init)
{
    const size_t end = offsetof(struct na_plugin_init, mem_per_session) + sizeof(uint32_t);

    return init->size >= end && init->mem_per_session != 0;
}

int32_t kit_option_get(const struct na_plugin_init *init, const char *name, char *value,
                       size_t size)
{
    const size_t end = offsetof(struct na_plugin_init, options) + sizeof(init->options);
    const char *option = init->size >= end ? init->options : NULL;
    const size_t name_length = strlen(name);

    while (option != NULL) {
        const size_t length = strcspn(option, "&");

        if (length > name_length && memcmp(option, name, name_length) == 0 &&
            option[name_length] == '=') {
            const size_t value_length = length - name_length - 1;

            if (value_length >= size)
                return NA_PLUGIN_OVERFLOW;
            memcpy(value, option + name_length + 1, value_length);
            value[value_length] = '\0';
            return NA_PLUGIN_SUCCESS;
        }
        option = option[length] != '\0' ? option + length + 1 : NULL;
    }
    return NA_PLUGIN_NOENTRY;
}
