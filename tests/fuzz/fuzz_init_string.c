/* SPDX-License-Identifier: BSD-3-Clause */
/* Init strings, the options of the fault plugin, and the host and port to listen at. */

#include "fuzz.h"

#include "kit_base.h"
#include "na/init_string.h"
#include "na_ext.h"
#include "options.h"

static void check_choice(const struct na_init_choice *choice)
{
    FUZZ_CHECK(choice->plugin == NULL || na_plugin_name_is_valid(choice->plugin));
    FUZZ_CHECK(choice->protocol == NULL || choice->protocol[0] != '\0');
    FUZZ_CHECK(choice->protocol == NULL || strlen(choice->protocol) > NA_PROTOCOL_NAME_MAX ||
               na_protocol_name_is_valid(choice->protocol));
    FUZZ_CHECK(choice->address == NULL || strchr(choice->address, ',') == NULL);
    FUZZ_CHECK(choice->plugin == NULL || choice->protocol != NULL);
}

static void try_options(const char *string)
{
    struct fault_options options;
    char reason[256] = "";

    if (!fault_options_parse(string, &options, reason, sizeof(reason))) {
        FUZZ_CHECK(reason[0] != '\0');
        return;
    }
    FUZZ_CHECK(options.drop <= FAULT_CERTAIN && options.reorder <= FAULT_CERTAIN &&
               options.cancel_fails <= FAULT_CERTAIN);
    FUZZ_CHECK(options.delay_min_ns <= options.delay_max_ns);
}

static void try_location(const char *string)
{
    char reason[KIT_LOCATION_REASON_MAX] = "";
    struct kit_location location;

    if (kit_location_parse(string, &location, reason) == NA_PLUGIN_SUCCESS)
        FUZZ_CHECK(strnlen(location.host, sizeof(location.host)) < sizeof(location.host));
    else
        FUZZ_CHECK(reason[0] != '\0');
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    fuzz_setup();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct fuzz_input input = {data, size};
    struct na_init_string parsed;
    char *string = fuzz_string(&input, ""), *mark;
    char reason[256] = "";
    na_return_t ret = na_init_string_parse(string, &parsed, reason, sizeof(reason));

    FUZZ_CHECK(ret == NA_SUCCESS || ret == NA_INVALID_ARG);
    FUZZ_CHECK((ret == NA_SUCCESS) == (parsed.count > 0));
    FUZZ_CHECK(ret == NA_SUCCESS || reason[0] != '\0');
    for (size_t i = 0; i < parsed.count; i++) {
        check_choice(&parsed.choices[i]);
        if (parsed.choices[i].address != NULL)
            try_location(parsed.choices[i].address);
    }
    na_init_string_free(&parsed);
    FUZZ_CHECK(NA_Check_init_string(string, reason, sizeof(reason)) == ret);
    mark = strrchr(string, '?');
    try_options(mark != NULL ? mark + 1 : string);
    try_location(string);
    free(string);
    return 0;
}
