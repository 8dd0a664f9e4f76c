/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the library rather than of a class: version, names of return codes, log, cleanup. */
#include "engine/library.h"

#include "na_ext.h"

_Static_assert((int) HG_CANCELED == (int) NA_CANCELED, "codes of HG and NA are the same numbers");
_Static_assert((int) HG_HOSTFIREWALL == (int) NA_HOSTFIREWALL, "up to the last one of NA");

hg_return_t HG_Version_get(unsigned int *major_p, unsigned int *minor_p, unsigned int *patch_p)
{
    if (major_p != NULL)
        *major_p = HG_VERSION_MAJOR;
    if (minor_p != NULL)
        *minor_p = HG_VERSION_MINOR;
    if (patch_p != NULL)
        *patch_p = HG_VERSION_PATCH;
    return HG_SUCCESS;
}

const char *HG_Error_to_string(hg_return_t errnum)
{
#define X(name) #name,
    static const char *const names[] = {HG_RETURN_VALUES};
#undef X

    if ((unsigned int) errnum >= HG_RETURN_MAX)
        return "HG_UNKNOWN_ERROR";
    return names[errnum];
}

hg_return_t HG_Get_na_protocol_info(const char *info_string,
                                    struct na_protocol_info **na_protocol_info_p)
{
    return hg_return_from_na(NA_Get_protocol_info(info_string, na_protocol_info_p));
}

void HG_Free_na_protocol_info(struct na_protocol_info *na_protocol_info)
{
    NA_Free_protocol_info(na_protocol_info);
}

void HG_Cleanup(void)
{
    NA_Cleanup();
}

void HG_Set_log_level(const char *level)
{
    NA_Set_log_level(level);
}

void HG_Set_log_subsys(const char *subsys)
{
    NA_Set_log_subsys(subsys);
}

void HG_Set_log_func(int (*log_func)(FILE *stream, const char *format, ...))
{
    NA_Set_log_func(log_func);
}

void HG_Set_log_stream(const char *level, FILE *stream)
{
    NA_Set_log_stream(level, stream);
}
