/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts the init info, whose caller may be compiled with an older, shorter struct. */

#include "na/init_info.h"

#include "na/log.h"

#include <stdio.h>
#include <string.h>

static bool is_given(const char *text);
static const char *init_info_needs_key(const struct na_init_info *info);
static const char *init_info_check(const struct na_init_info *info);

na_return_t na_init_info_get(struct na_init_info *info, unsigned int version,
                             const struct na_init_info *given, char *reason, size_t reason_size)
{
    const char *wrong;

    *info = NA_INIT_INFO_INITIALIZER;
    if (given == NULL)
        return NA_SUCCESS;
    if (NA_VERSION_GE(version, NA_VERSION(5u, 0u))) {
        memcpy(info, given,
               (version & NA_VERSION_ADDITIONS) != 0
                   ? sizeof(*info)
                   : offsetof(struct na_init_info, traffic_class) + sizeof(info->traffic_class));
    } else {
        /* The caller's struct may end there. */
        na_init_info_dup_4_0(info, (const struct na_init_info_4_0 *) (const void *) given);
    }
    wrong = init_info_needs_key(info);
    if (wrong != NULL && !is_given(info->auth_key)) {
        (void) snprintf(reason, reason_size, "%s of the init info needs auth_key, which is missing",
                        wrong);
        NA_LOG_ERROR("%s", reason);
        return NA_INVALID_ARG;
    }
    if (info->auth_key != NULL && info->auth_key[0] == '\0')
        NA_LOG_WARNING("auth_key of the init info is empty: the class is opened without a key, as "
                       "with NULL");
    wrong = init_info_check(info);
    if (wrong == NULL)
        return NA_SUCCESS;
    (void) snprintf(reason, reason_size,
                    "%s of the init info is out of range (version given: %u.%u); begin with "
                    "NA_INIT_INFO_INITIALIZER and pass the version you compile with",
                    wrong, NA_MAJOR(version), NA_MINOR(version));
    NA_LOG_ERROR("%s", reason);
    return NA_INVALID_ARG;
}

static bool is_given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* Returns the name of a field that is set and needs auth_key, or NULL. */
static const char *init_info_needs_key(const struct na_init_info *info)
{
    if (info->encrypt)
        return "encrypt";
    if (info->mem_per_session)
        return "mem_per_session";
    return is_given(info->auth_key_also) ? "auth_key_also" : NULL;
}

/* Returns the name of a field that is out of range, or NULL. Unknown bits of the modes are
 * accepted: later versions may define them. */
static const char *init_info_check(const struct na_init_info *info)
{
    if ((unsigned int) info->addr_format > NA_ADDR_NATIVE)
        return "addr_format";
    if ((unsigned int) info->traffic_class > NA_TC_NETWORK_CTRL)
        return "traffic_class";
    return NULL;
}
