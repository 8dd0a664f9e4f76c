/* SPDX-License-Identifier: BSD-3-Clause */
/* Strings that record whether they own their memory. */
#include "mercury_string_object.h"

#include <stdlib.h>
#include <string.h>

static hg_return_t hg_string_object_set(hg_string_object_t *string, char *s, bool is_const,
                                        bool is_owned);

hg_return_t hg_string_object_init(hg_string_object_t *string)
{
    return hg_string_object_set(string, NULL, false, false);
}

hg_return_t hg_string_object_init_char(hg_string_object_t *string, char *s, uint8_t is_owned)
{
    return hg_string_object_set(string, s, false, is_owned != 0);
}

hg_return_t hg_string_object_init_const_char(hg_string_object_t *string, const char *s,
                                             uint8_t is_owned)
{
    /* is_const remembers what the cast drops. */
    return hg_string_object_set(string, (char *) (uintptr_t) s, true, is_owned != 0);
}

hg_return_t hg_string_object_free(hg_string_object_t *string)
{
    if (string == NULL)
        return HG_INVALID_ARG;
    if (string->is_owned)
        free(string->data);
    return hg_string_object_init(string);
}

hg_return_t hg_string_object_dup(hg_string_object_t string, hg_string_object_t *new_string)
{
    char *copy = NULL;

    if (new_string == NULL)
        return HG_INVALID_ARG;
    if (string.data != NULL) {
        copy = strdup(string.data);
        if (copy == NULL)
            return HG_NOMEM;
    }
    return hg_string_object_set(new_string, copy, false, true);
}

char *hg_string_object_swap(hg_string_object_t *string, char *s)
{
    char *old;

    if (string == NULL)
        return NULL;
    old = string->data;
    string->data = s;
    return old;
}

static hg_return_t hg_string_object_set(hg_string_object_t *string, char *s, bool is_const,
                                        bool is_owned)
{
    if (string == NULL)
        return HG_INVALID_ARG;
    string->data = s;
    string->is_const = is_const;
    string->is_owned = is_owned;
    return HG_SUCCESS;
}
