/* SPDX-License-Identifier: BSD-3-Clause */
/* Address strings: `plugin+protocol://name`. */

#include "kit_base.h"

#include <string.h>

static const char *text_behind(const char *text, const char *start);

const char *kit_address_name(const char *address, const char *plugin, const char *protocol)
{
    const char *rest = text_behind(address, plugin);

    if (strstr(address, "://") == NULL)
        return address;
    if (rest != NULL)
        rest = text_behind(rest, "+");
    rest = text_behind(rest != NULL ? rest : address, protocol);
    return rest != NULL ? text_behind(rest, "://") : NULL;
}

/* NULL when the text begins in another way. */
static const char *text_behind(const char *text, const char *start)
{
    const size_t length = strlen(start);

    return strncmp(text, start, length) == 0 ? text + length : NULL;
}
