/* SPDX-License-Identifier: BSD-3-Clause */
/* The names of endpoints, the paths of their files, and what the system's errors mean. */

#include "sm.h"

#include "siphash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SM_WAKE_CODE 7 /* characters: SM_PATH_MAX has room for them behind the longest name */

static _Atomic uint32_t sm_user_id;

bool sm_name_check(const char *name, size_t length, const char **reason_p)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";

    *reason_p = NULL;
    if (length == 0)
        *reason_p = "it is empty";
    else if (length > SM_NAME_MAX)
        *reason_p = "it has more than 63 characters";
    else if (strspn(name, allowed) < length)
        *reason_p = "only letters, digits, '_', '-' and '.' are allowed";
    else if (name[0] == '.' || memmem(name, length, "..", 2) != NULL)
        *reason_p = "it begins with '.' or contains '..'";
    else if (memmem(name, length, ".wake.", 6) != NULL)
        *reason_p = "it contains '.wake.', which is reserved";
    return *reason_p == NULL;
}

void sm_user_set(void)
{
    sm_store(&sm_user_id, (uint32_t) geteuid());
}

/* Files belong to the effective user at the first open, even if the process changes its user. */
uint32_t sm_user(void)
{
    return sm_load(&sm_user_id);
}

void sm_segment_path(char path[SM_PATH_MAX], const char *name)
{
    (void) snprintf(path, SM_PATH_MAX, SM_DIRECTORY SM_PREFIX "%u.%s", sm_user(), name);
}

/* Another user does not know the secret, so it cannot predict the name and take it first. */
void sm_wake_path(char path[SM_PATH_MAX], const char *name, const struct kit_key *secret,
                  uint32_t id)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    struct sm_siphash hash = sm_siphash_begin(secret);
    char code[SM_WAKE_CODE + 1] = {0};
    uint64_t random;

    sm_siphash_word(&hash, id); /* one word: the digest of a memory handle is of more */
    random = sm_siphash_end(&hash);
    for (int i = 0; i < SM_WAKE_CODE; i++, random >>= 6)
        code[i] = digits[random % 64];
    (void) snprintf(path, SM_PATH_MAX, SM_DIRECTORY SM_PREFIX "%u.%s.wake.%s", sm_user(), name,
                    code);
}

/* Returns advice to append to an error text, or "". */
const char *sm_error_hint(int error)
{
    switch (error) {
    case EMFILE:
        return "; no descriptor is left: raise `ulimit -n`";
    case ENFILE:
        return "; the system has no descriptor left: close files or raise fs.file-max";
    case ENOSPC:
        return "; make room in " SM_DIRECTORY;
    case ELOOP:
        return "; it is a symbolic link, and none is followed";
    default:
        return "";
    }
}

/* Lack of memory or descriptors is temporary, another error is not. */
int32_t sm_error_status(int error)
{
    bool is_temporary = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOSPC;

    return is_temporary ? NA_PLUGIN_NOMEM : NA_PLUGIN_ACCESS;
}
