/* SPDX-License-Identifier: BSD-3-Clause */
/* The plugin over the strict provider, in the profile that AMALGAM_STRICT_PROFILE names. */

#include "ofi.h"

#include "kit/plugin_host.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* More registrations than any profile allows. */
#define REGIONS 5000

static const char *protocol(void)
{
    const char *profile = getenv("AMALGAM_STRICT_PROFILE");

    return profile == NULL || strcmp(profile, "all") == 0 ? "strict" : profile;
}

static struct na_plugin_class *open_class(void)
{
    struct na_plugin_init init = {
        .size = sizeof(init),
        .listen = 1,
        .class_name = "ofi",
        .protocol = protocol(),
        .max_contexts = 1,
    };
    struct na_plugin_class_info info = {.size = sizeof(info)};
    struct na_plugin_class *na_class = NULL;

    plugin_host_log[0] = '\0';
    if (ofi_class_initialize(&init, NULL, &na_class, &info) != NA_PLUGIN_SUCCESS)
        fail_msg("%s", plugin_host_log);
    return na_class;
}

static struct na_plugin_mem *registered(struct na_plugin_class *na_class, void *base, uint64_t size,
                                        int32_t *ret_p)
{
    struct na_plugin_mem *mem = NULL;

    assert_int_equal(
        ofi_mem_create(na_class, base, size, NA_PLUGIN_MEM_READ | NA_PLUGIN_MEM_WRITE, &mem),
        NA_PLUGIN_SUCCESS);
    *ret_p = ofi_mem_register(na_class, mem, NA_PLUGIN_MEM_TYPE_HOST, 0);
    return mem;
}

/* The provider ends the process if an endpoint is closed before the memory that is bound to it. */
static void a_class_closes_with_memory_registered(void **state)
{
    static uint8_t memory[8192];
    struct na_plugin_class *na_class = open_class();
    int32_t ret;

    (void) state;
    (void) registered(na_class, memory, sizeof(memory), &ret);
    assert_int_equal(ret, NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_class_finalize(na_class), NA_PLUGIN_SUCCESS);
    assert_string_equal(plugin_host_log, "");
}

static void too_many_registrations_are_no_memory(void **state)
{
    static struct na_plugin_mem *mems[REGIONS];
    static uint8_t memory[64];
    struct na_plugin_class *na_class = open_class();
    int32_t ret = NA_PLUGIN_SUCCESS;
    uint32_t count = 0;

    (void) state;
    while (ret == NA_PLUGIN_SUCCESS && count < REGIONS)
        mems[count++] = registered(na_class, memory, sizeof(memory), &ret);
    assert_int_equal(ret, NA_PLUGIN_NOMEM);
    assert_true(count > 64);
    assert_int_equal(ofi_mem_deregister(na_class, mems[0]), NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_mem_register(na_class, mems[count - 1], NA_PLUGIN_MEM_TYPE_HOST, 0),
                     NA_PLUGIN_SUCCESS);
    assert_int_equal(ofi_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

static void names_of_another_length_are_no_addresses(void **state)
{
    struct na_plugin_class *na_class = open_class();
    struct na_plugin_addr *addr = NULL;
    char name[KIT_NAME_MAX];
    size_t length = strlen(na_class->name);

    (void) state;
    for (size_t digits = 2; digits < length + 8; digits += 2) {
        memset(name, '0', sizeof(name));
        memcpy(name, na_class->name, length);
        name[digits] = '\0';
        if (digits != length)
            assert_int_equal(ofi_addr_lookup(na_class, name, &addr), NA_PLUGIN_INVALID_ARG);
    }
    assert_null(addr);
    assert_int_equal(ofi_class_finalize(na_class), NA_PLUGIN_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_closes_with_memory_registered),
        cmocka_unit_test(too_many_registrations_are_no_memory),
        cmocka_unit_test(names_of_another_length_are_no_addresses),
    };
    int ret;

    kit_host = &plugin_host;
    ret = cmocka_run_group_tests(tests, NULL, NULL);
    ofi_enumerate_cleanup();
    return ret;
}
