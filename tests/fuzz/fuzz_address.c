/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses as strings, looked up over shared memory, with and without the fault plugin. */

#include "fuzz.h"

#include "na.h"

#define CLASSES 2

static na_class_t *classes[CLASSES];
static char own[256];

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char *const strings[CLASSES] = {"na+sm", "fault+na+sm"};
    na_addr_t *self;
    size_t size = sizeof(own);

    (void) argc;
    (void) argv;
    fuzz_setup();
    for (int i = 0; i < CLASSES; i++) {
        classes[i] = NA_Initialize(strings[i], true);
        FUZZ_CHECK(classes[i] != NULL);
    }
    FUZZ_CHECK(NA_Addr_self(classes[0], &self) == NA_SUCCESS);
    FUZZ_CHECK(NA_Addr_to_string(classes[0], own, &size, self) == NA_SUCCESS);
    NA_Addr_free(classes[0], self);
    memmove(own, strstr(own, "://") + 3, strlen(strstr(own, "://") + 3) + 1);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_input input = {data, size};
    char *string = fuzz_string(&input, own);

    for (int i = 0; i < CLASSES; i++) {
        na_addr_t *addr = NULL, *again = NULL;
        char text[512];
        size_t length = sizeof(text);

        if (NA_Addr_lookup(classes[i], string, &addr) != NA_SUCCESS) {
            FUZZ_CHECK(addr == NULL);
            continue;
        }
        FUZZ_CHECK(NA_Addr_to_string(classes[i], text, &length, addr) == NA_SUCCESS);
        FUZZ_CHECK(length == strlen(text) + 1);
        FUZZ_CHECK(NA_Addr_lookup(classes[i], text, &again) == NA_SUCCESS);
        FUZZ_CHECK(NA_Addr_cmp(classes[i], addr, again));
        NA_Addr_free(classes[i], addr);
        NA_Addr_free(classes[i], again);
    }
    free(string);
    return 0;
}
