/* SPDX-License-Identifier: BSD-3-Clause */
/* Address strings: `plugin+protocol://name`. */

#include "kit_base.h"

#include <string.h>

static const char *text_after(const char *text, const char *start);

const char *kit_address_name(const char *address, const char *plugin, const char *protocol)
{
    const char *rest = text_after(address, plugin);

    if (strstr(address, "://") == NULL)
        return address;
    if (rest != NULL)
        rest = text_after(rest, "+");
    rest = text_after(rest != NULL ? rest : address, protocol);
    return rest != NULL ? text_after(rest, "://") : NULL;
}

/* Returns the rest of the text after `start`, or NULL if it does not begin with that. */
static const char *text_after(const char *text, const char *start)
{
    const size_t length = strlen(start);

    return strncmp(text, start, length) == 0 ? text + length : NULL;
}
