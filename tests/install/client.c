/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest client, also compiled as C++14. It starts and stops RPC over shared memory, for
 * which the core has to find the plugin next to itself.
 */
#include <mercury.h>
#include <mercury_macros.h>
#include <mercury_proc_string.h>
#include <stdio.h>

MERCURY_GEN_PROC(greet_in_t, ((hg_const_string_t) (name))((int32_t) (times)))

int main(void)
{
    unsigned int major = 0, minor = 0, patch = 0;
    hg_class_t *hg_class = NULL;
    hg_context_t *context = NULL;
    int status = 1;

    if (HG_Version_get(&major, &minor, &patch) != HG_SUCCESS || major != HG_VERSION_MAJOR) {
        fprintf(stderr, "the library is version %u.%u.%u\n", major, minor, patch);
        return 1;
    }
    hg_class = HG_Init("na+sm", HG_FALSE);
    if (hg_class == NULL)
        return 1;
    context = HG_Context_create(hg_class);
    if (context == NULL)
        goto out;
    if (MERCURY_REGISTER(hg_class, "greet", greet_in_t, void, NULL) == 0)
        goto out;
    if (HG_Context_destroy(context) == HG_SUCCESS)
        status = 0;

out:
    if (HG_Finalize(hg_class) != HG_SUCCESS)
        status = 1;
    printf("version %u.%u.%u, status %d\n", major, minor, patch, status);
    return status;
}
