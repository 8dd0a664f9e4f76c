/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/fork.h"

#include "engine/log.h"

unsigned int hg_forks;

bool hg_fork_refuses(const hg_class_t *hg_class, const char *function)
{
    if (!hg_class_is_inherited(hg_class))
        return false;
    HG_LOG_ERROR("%s(): the object was inherited by fork() and is the parent's; open a class of "
                 "this process",
                 function);
    return true;
}

hg_return_t UTIL_COLD hg_class_refuse(const hg_class_t *hg_class, const char *function)
{
    if (hg_class != NULL && hg_fork_refuses(hg_class, function))
        return HG_PERMISSION;
    HG_LOG_ERROR("%s(): the class is NULL; pass an open one", function);
    return HG_INVALID_ARG;
}
