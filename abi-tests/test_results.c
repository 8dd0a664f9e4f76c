/* SPDX-License-Identifier: BSD-3-Clause */
/* What becomes of plugins of other versions, and of files that are no plugins: the result of
 * opening them and the record, row by row as docs/abi-policy.md has them. Through the public API of
 * the shared library alone. */

#include "na.h"
#include "na_ext.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A row of the table. */
struct result {
    const char *name; /* of the plugin: na_<name>.so */
    const char *init; /* what is opened */
    na_return_t ret;  /* what opening it returns */
    enum na_plugin_stage stage;
    enum na_plugin_code code;
    uint32_t abi_version; /* in the record */
    const char *text;     /* the record says so, among other things */
};

#define ABI(major, minor) ((uint32_t) (major) << 16 | (minor))

static const struct result results[] = {
    /* Any minor of the major, with a table of any length that has what is mandatory. */
    {"released", "released+self", NA_SUCCESS, NA_PLUGIN_STAGE_READY, NA_PLUGIN_LOADED, ABI(1, 0),
     ""},
    {"truncated", "truncated+self", NA_SUCCESS, NA_PLUGIN_STAGE_READY, NA_PLUGIN_LOADED, ABI(1, 0),
     ""},
    {"later", "later+self", NA_SUCCESS, NA_PLUGIN_STAGE_READY, NA_PLUGIN_LOADED, ABI(1, 99), ""},
    {"wire", "wire+wire", NA_ADDRNOTAVAIL, NA_PLUGIN_STAGE_READY, NA_PLUGIN_LOADED, ABI(1, 0), ""},
    /* Another major. */
    {"newmajor", "newmajor+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_ABI_TOO_NEW, ABI(2, 0),
     "built for plugin ABI 2.0"},
    {"oldmajor", "oldmajor+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_ABI_TOO_OLD, ABI(0, 0),
     "built for plugin ABI 0.0"},
    {"entryv2", "entryv2+wire", NA_NODEV, NA_PLUGIN_STAGE_ENTRY, NA_PLUGIN_ABI_TOO_NEW, ABI(2, 0),
     "built for plugin ABI 2"},
    /* Tables that are none. */
    {"short", "short+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE, ABI(1, 0),
     "the table's size is"},
    {"headless", "headless+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE,
     ABI(1, 0), "the table's size is 8 bytes"},
    {"huge", "huge+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE, ABI(1, 0),
     "the table's size is 4294967295 bytes"},
    {"nopoll", "nopoll+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE, ABI(1, 0),
     "the mandatory function poll is missing"},
    {"notable", "notable+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE, 0,
     "returned no table"},
    {"misnamed", "misnamed+wire", NA_NODEV, NA_PLUGIN_STAGE_TABLE, NA_PLUGIN_INVALID_TABLE,
     ABI(1, 0), "the table's name is \"other\""},
    /* The symbol. */
    {"noentry", "noentry+wire", NA_NODEV, NA_PLUGIN_STAGE_ENTRY, NA_PLUGIN_NO_ENTRY, 0,
     "does not export the symbol na_plugin_entry_v1"},
    {"dataentry", "dataentry+wire", NA_NODEV, NA_PLUGIN_STAGE_ENTRY, NA_PLUGIN_NO_ENTRY, 0,
     "is not that of a function"},
    {"depentry", "depentry+wire", NA_NODEV, NA_PLUGIN_STAGE_ENTRY, NA_PLUGIN_NO_ENTRY, 0,
     "belongs to a library that it depends on"},
    {"refusing", "refusing+wire", NA_NODEV, NA_PLUGIN_STAGE_ENTRY, NA_PLUGIN_REFUSED, 0,
     "the fabric is asleep"},
    /* Files, which make_files() makes. */
    {"othermachine", "othermachine+wire", NA_NODEV, NA_PLUGIN_STAGE_OPEN, NA_PLUGIN_OPEN_FAILED, 0,
     "is built for another machine"},
    {"text", "text+wire", NA_NODEV, NA_PLUGIN_STAGE_OPEN, NA_PLUGIN_OPEN_FAILED, 0,
     "is not a shared object"},
    {"writable", "writable+wire", NA_NODEV, NA_PLUGIN_STAGE_SEARCH, NA_PLUGIN_UNSAFE, 0,
     "can be written to by everybody"},
    {"absent", "absent+wire", NA_NOENTRY, NA_PLUGIN_STAGE_SEARCH, NA_PLUGIN_MISSING, 0,
     "na_absent.so"},
};

static char folder[64]; /* of the files that are made here */

static unsigned char *read_file(const char *path, size_t *size_p)
{
    FILE *file = fopen(path, "rb");
    unsigned char *bytes;
    struct stat info;

    assert_non_null(file);
    assert_int_equal(fstat(fileno(file), &info), 0);
    bytes = malloc((size_t) info.st_size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t) info.st_size, file), info.st_size);
    assert_int_equal(fclose(file), 0);
    *size_p = (size_t) info.st_size;
    return bytes;
}

static void write_plugin(const char *name, const void *bytes, size_t size, mode_t mode)
{
    char path[128];
    FILE *file;

    (void) snprintf(path, sizeof(path), "%s/na_%s.so", folder, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* Of a good plugin: one for another machine, and one that everybody can write to. */
static int make_files(void **state)
{
    size_t size;
    unsigned char *bytes = read_file(TEST_PLUGIN_DIR "/na_wire.so", &size);
    Elf64_Ehdr *header = (Elf64_Ehdr *) (void *) bytes;
    char path[1024];

    (void) state;
    (void) snprintf(folder, sizeof(folder), "/tmp/amalgam-abi-XXXXXX");
    assert_non_null(mkdtemp(folder));
    write_plugin("writable", bytes, size, 0777);
    header->e_machine = header->e_machine == EM_PPC64 ? EM_S390 : EM_PPC64;
    write_plugin("othermachine", bytes, size, 0755);
    write_plugin("text", "#!/bin/sh\nexit 0\n", 17, 0755);
    free(bytes);

    (void) snprintf(path, sizeof(path), "%s:%s:%s/second", folder, TEST_PLUGIN_DIR,
                    TEST_PLUGIN_DIR);
    return setenv("NA_PLUGIN_PATH", path, 1);
}

static int remove_files(void **state)
{
    static const char *const names[] = {"writable", "othermachine", "text"};
    char path[128];

    (void) state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void) snprintf(path, sizeof(path), "%s/na_%s.so", folder, names[i]);
        (void) unlink(path);
    }
    return rmdir(folder);
}

static const struct na_plugin_record *find(const struct na_plugin_record *records, const char *name)
{
    for (; records != NULL; records = records->next)
        if (strcmp(records->name, name) == 0)
            return records;
    return NULL;
}

static void check_record(const struct result *result)
{
    struct na_plugin_record *records;
    const struct na_plugin_record *record;

    assert_int_equal(NA_Plugin_get_records(NA_PLUGIN_LOAD_ALL, &records), NA_SUCCESS);
    record = find(records, result->name);
    assert_non_null(record);
    print_message("  %-12s %-16s %-6s %-14s %s\n", result->name, NA_Error_to_string(result->ret),
                  NA_Plugin_stage_to_string(record->stage), NA_Plugin_code_to_string(record->code),
                  record->text);
    assert_int_equal(record->stage, result->stage);
    assert_int_equal(record->code, result->code);
    assert_int_equal(record->abi_version, result->abi_version);
    assert_int_equal(record->loaded, result->code == NA_PLUGIN_LOADED);
    assert_non_null(strstr(record->text, result->text));
    NA_Plugin_free_records(records);
}

static void every_file_has_its_documented_result_and_record(void **state)
{
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    for (size_t i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
        const struct result *result = &results[i];
        na_return_t ret;

        na_class = NULL;
        ret = NA_Initialize_reason(result->init, false, NA_VERSION(6, 0), NULL, &na_class, reason,
                                   sizeof(reason));
        if (ret != result->ret)
            fail_msg("%s: %s, and not %s: %s", result->init, NA_Error_to_string(ret),
                     NA_Error_to_string(result->ret), reason);
        check_record(result);
        if (result->code != NA_PLUGIN_LOADED && result->code != NA_PLUGIN_MISSING)
            assert_non_null(strstr(reason, result->text));
        if (ret == NA_SUCCESS)
            assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
        else
            assert_null(na_class);
    }
}

static void of_two_files_of_one_name_the_first_is_loaded(void **state)
{
    struct na_plugin_record *records;
    unsigned int loaded = 0, duplicates = 0;

    (void) state;
    assert_int_equal(NA_Plugin_get_records(NA_PLUGIN_LOAD_ALL, &records), NA_SUCCESS);
    for (const struct na_plugin_record *record = records; record != NULL; record = record->next) {
        const bool second = strstr(record->path, "/second/") != NULL;

        if (strcmp(record->name, "twice") != 0)
            continue;
        assert_int_equal(record->code, second ? NA_PLUGIN_DUPLICATE : NA_PLUGIN_LOADED);
        assert_int_equal(record->loaded, !second);
        if (second)
            assert_non_null(strstr(record->text, TEST_PLUGIN_DIR "/na_twice.so"));
        loaded += record->loaded;
        duplicates += second;
    }
    assert_int_equal(loaded, 1);
    assert_int_equal(duplicates, 1);
    NA_Plugin_free_records(records);
}

static void count(const struct na_cb_info *info)
{
    assert_int_equal(info->ret, NA_SUCCESS);
    if (info->type == NA_CB_RECV_EXPECTED)
        assert_int_equal(info->info.recv_expected.actual_buf_size, 100);
    (*(unsigned int *) info->arg)++;
}

/* A message to itself and a read of its own memory. */
static void use_plugin(const char *init)
{
    na_class_t *na_class = NA_Initialize(init, true);
    na_context_t *context = NA_Context_create(na_class);
    na_op_id_t *ops[2] = {NA_Op_create(na_class, NA_OP_SINGLE),
                          NA_Op_create(na_class, NA_OP_SINGLE)};
    char sent[100], received[100] = {0};
    unsigned int completed = 0, triggered;
    na_addr_t *self;

    assert_non_null(context);
    memset(sent, 'x', sizeof(sent));
    assert_int_equal(NA_Addr_self(na_class, &self), NA_SUCCESS);
    assert_int_equal(NA_Msg_recv_expected(na_class, context, count, &completed, received,
                                          sizeof(received), NULL, self, 0, 7, ops[0]),
                     NA_SUCCESS);
    assert_int_equal(NA_Msg_send_expected(na_class, context, count, &completed, sent, sizeof(sent),
                                          NULL, self, 0, 7, ops[1]),
                     NA_SUCCESS);
    for (unsigned int i = 0; i < 1000 && completed < 2; i++) {
        assert_int_equal(NA_Poll(na_class, context, NULL), NA_SUCCESS);
        assert_int_equal(NA_Trigger(context, 10, &triggered), NA_SUCCESS);
    }
    assert_int_equal(completed, 2);
    assert_memory_equal(sent, received, sizeof(sent));

    NA_Addr_free(na_class, self);
    NA_Op_destroy(na_class, ops[0]);
    NA_Op_destroy(na_class, ops[1]);
    assert_int_equal(NA_Context_destroy(na_class, context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
}

static void plugins_of_other_versions_carry_messages(void **state)
{
    (void) state;
    use_plugin("released+self");
    use_plugin("truncated+self");
    use_plugin("later+self");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_file_has_its_documented_result_and_record),
        cmocka_unit_test(of_two_files_of_one_name_the_first_is_loaded),
        cmocka_unit_test(plugins_of_other_versions_carry_messages),
    };

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
