/* SPDX-License-Identifier: BSD-3-Clause */
/* The loader: what it does with each kind of file, and the record that it keeps of the file. */

#include "na/search_path.h"
#include "na_test.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    (void) state;
    (void) snprintf(folder, sizeof(folder), "/tmp/amalgam-loader-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return setenv("NA_PLUGIN_PATH", folder, 1);
}

static int remove_folder(void **state)
{
    char command[128];

    (void) state;
    (void) snprintf(command, sizeof(command), "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[256];

    (void) snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const void *content, size_t size)
{
    FILE *file = fopen(in_folder(name), "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(in_folder(name), 0755), 0);
}

/* Read the file of a test plugin. */
static unsigned char *read_plugin(const char *file, size_t *size_p)
{
    char path[4096];
    unsigned char *bytes;
    struct stat info;
    int fd;

    (void) snprintf(path, sizeof(path), "%s/%s", TEST_PLUGIN_DIR, file);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &info), 0);
    bytes = malloc((size_t) info.st_size);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t) info.st_size), info.st_size);
    close(fd);
    *size_p = (size_t) info.st_size;
    return bytes;
}

static void copy_plugin(const char *file, const char *to)
{
    size_t size;
    unsigned char *bytes = read_plugin(file, &size);

    write_file(to, bytes, size);
    free(bytes);
}

static const struct na_plugin_record *find(const struct na_plugin_record *records, const char *name)
{
    for (; records != NULL; records = records->next)
        if (strcmp(records->name, name) == 0)
            return records;
    return NULL;
}

/* Load all plugins and check the record of one of them. */
static void expect(const char *name, enum na_plugin_stage stage, enum na_plugin_code code,
                   const char *text)
{
    struct na_plugin_record *records;
    const struct na_plugin_record *record;
    char init[128], reason[4096];
    na_class_t *na_class;

    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    record = find(records, name);
    assert_non_null(record);
    print_message("  %s (%s): %s\n", name, NA_Plugin_code_to_string(record->code), record->text);
    assert_int_equal(record->code, code);
    assert_int_equal(record->stage, stage);
    assert_non_null(strstr(record->text, text));
    assert_int_equal(record->loaded, code == NA_LOADER_LOADED);
    if (code != NA_LOADER_LOADED && code != NA_LOADER_DUPLICATE) {
        (void) snprintf(init, sizeof(init), "%s+wire", name);
        assert_int_equal(NA_Initialize_reason(init, false, NA_VERSION(6, 0), NULL, &na_class,
                                              reason, sizeof(reason)),
                         NA_NODEV);
        assert_non_null(strstr(reason, NA_Plugin_code_to_string(code)));
        assert_non_null(strstr(reason, text));
    }
    NA_Plugin_free_records(records);
}

static void a_text_file_is_no_shared_object(void **state)
{
    (void) state;
    write_file("na_text.so", "#!/bin/sh\nexit 0\n", 17);
    expect("text", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "no ELF header");
    write_file("na_empty.so", "", 0);
    expect("empty", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "no ELF header");
}

static void a_truncated_object_is_found_out_at_every_length(void **state)
{
    size_t size;
    unsigned char *bytes = read_plugin("loop/na_loop.so", &size);
    const size_t lengths[] = {16, 64, 100, 700, 4096, 8192};
    char name[32], file[48];

    (void) state;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        (void) snprintf(name, sizeof(name), "cut%zu", lengths[i]);
        (void) snprintf(file, sizeof(file), "na_%s.so", name);
        write_file(file, bytes, lengths[i]);
        expect(name, NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED,
               lengths[i] < sizeof(Elf64_Ehdr) ? "no ELF header" : "truncated");
    }
    free(bytes);
}

static void an_object_for_another_machine_is_named_as_such(void **state)
{
    size_t size;
    unsigned char *bytes = read_plugin("loop/na_loop.so", &size);
    Elf64_Ehdr *header = (Elf64_Ehdr *) (void *) bytes;
    const Elf64_Ehdr original = *header;

    (void) state;
    header->e_machine = original.e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
    write_file("na_machine.so", bytes, size);
    expect("machine", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "another machine");
    *header = original;
    header->e_ident[EI_CLASS] = ELFCLASS32;
    write_file("na_class.so", bytes, size);
    expect("class", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "another machine");
    *header = original;
    header->e_ident[EI_DATA] ^= 3;
    write_file("na_order.so", bytes, size);
    expect("order", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "another machine");
    *header = original;
    header->e_type = ET_EXEC;
    write_file("na_program.so", bytes, size);
    expect("program", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "not a shared object");
    *header = original;
    header->e_phnum = 0;
    write_file("na_headers.so", bytes, size);
    expect("headers", NA_LOADER_STAGE_OPEN, NA_LOADER_OPEN_FAILED, "damaged");
    free(bytes);
}

static void each_kind_of_bad_plugin_has_its_record(void **state)
{
    (void) state;
    use_plugins("bad");
    expect("noentry", NA_LOADER_STAGE_ENTRY, NA_LOADER_NO_ENTRY, "does not export");
    expect("depentry", NA_LOADER_STAGE_ENTRY, NA_LOADER_NO_ENTRY, "library that it depends on");
    expect("entryv2", NA_LOADER_STAGE_ENTRY, NA_LOADER_ABI_TOO_NEW, "plugin ABI 2");
    expect("newmajor", NA_LOADER_STAGE_TABLE, NA_LOADER_ABI_TOO_NEW, "plugin ABI 2.");
    expect("oldmajor", NA_LOADER_STAGE_TABLE, NA_LOADER_ABI_TOO_OLD, "plugin ABI 0.");
    expect("short", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "size");
    expect("huge", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "size");
    expect("nopoll", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "poll is missing");
    expect("notable", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "no table");
    expect("misnamed", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "\"other\"");
    expect("noname", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "the table has no name");
    expect("refusing", NA_LOADER_STAGE_ENTRY, NA_LOADER_REFUSED, "the fabric is asleep");
}

static void any_minor_and_any_sufficient_length_is_loaded(void **state)
{
    struct na_plugin_record *records;

    (void) state;
    use_plugins("good");
    expect("future", NA_LOADER_STAGE_READY, NA_LOADER_LOADED, "");
    expect("minimal", NA_LOADER_STAGE_READY, NA_LOADER_LOADED, "");
    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    assert_int_equal(find(records, "future")->abi_version, 1 << 16 | 7);
    NA_Plugin_free_records(records);
}

static void files_that_others_can_write_to_are_refused(void **state)
{
    (void) state;
    copy_plugin("wires/na_low.so", "na_low.so");
    assert_int_equal(chmod(in_folder("na_low.so"), 0757), 0);
    expect("low", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "chmod o-w");
    /* A file that was repaired is loaded the next time. */
    assert_int_equal(chmod(in_folder("na_low.so"), 0755), 0);
    expect("low", NA_LOADER_STAGE_READY, NA_LOADER_LOADED, "");

    copy_plugin("wires/na_high.so", "na_high.so");
    if (geteuid() == 0) {
        assert_int_equal(chown(in_folder("na_high.so"), 0, 12345), 0);
        assert_int_equal(chmod(in_folder("na_high.so"), 0775), 0);
        expect("high", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "group 12345");
        assert_int_equal(chown(in_folder("na_high.so"), 54321, 0), 0);
        expect("high", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "user 54321");
    }
}

static void directories_that_others_can_write_to_are_refused(void **state)
{
    struct na_plugin_record *records;
    const struct na_plugin_record *record;

    (void) state;
    copy_plugin("wires/na_low.so", "na_low.so");
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    assert_null(find(records, "low"));
    record = find(records, "");
    assert_non_null(record);
    assert_int_equal(record->code, NA_LOADER_UNSAFE);
    assert_string_equal(record->path, folder);
    NA_Plugin_free_records(records);
    assert_null(NA_Initialize("low+wire", false));
    assert_int_equal(chmod(folder, 0755), 0);
}

static void links_are_followed_to_what_is_checked(void **state)
{
    char target[256];

    (void) state;
    /* A link to a file that others can write to. */
    assert_int_equal(mkdir(in_folder("open"), 0755), 0);
    copy_plugin("wires/na_low.so", "open/real.so");
    assert_int_equal(chmod(in_folder("open/real.so"), 0777), 0);
    assert_int_equal(symlink("open/real.so", in_folder("na_linked.so")), 0);
    expect("linked", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "everybody");
    /* A link to a good file in a directory that others can write to. */
    assert_int_equal(chmod(in_folder("open/real.so"), 0755), 0);
    assert_int_equal(chmod(in_folder("open"), 0777), 0);
    assert_int_equal(symlink("open/real.so", in_folder("na_linked2.so")), 0);
    expect("linked2", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "everybody");
    /* A link to a missing file, and a directory with a plugin's name. */
    assert_int_equal(symlink("nowhere", in_folder("na_dangling.so")), 0);
    (void) snprintf(target, sizeof(target), "%s/na_folder.so", folder);
    assert_int_equal(mkdir(target, 0755), 0);
    expect("folder", NA_LOADER_STAGE_SEARCH, NA_LOADER_UNSAFE, "not a regular file");
    /* One object under two names: its entry function is not called again. */
    copy_plugin("wires/na_high.so", "na_high.so");
    assert_int_equal(symlink("na_high.so", in_folder("na_second.so")), 0);
    expect("high", NA_LOADER_STAGE_READY, NA_LOADER_LOADED, "");
    expect("second", NA_LOADER_STAGE_TABLE, NA_LOADER_INVALID_TABLE, "another name");
}

static void the_first_of_a_name_wins_and_the_loser_is_reported(void **state)
{
    struct na_plugin_record *records;
    char path[4300];
    unsigned int low = 0, duplicates = 0;

    (void) state;
    copy_plugin("wires/na_low.so", "na_low.so");
    (void) snprintf(path, sizeof(path), "%s:%s/wires:%s", folder, TEST_PLUGIN_DIR, folder);
    assert_int_equal(setenv("NA_PLUGIN_PATH", path, 1), 0);
    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    for (const struct na_plugin_record *record = records; record != NULL; record = record->next) {
        if (strcmp(record->name, "low") != 0)
            continue;
        low++;
        if (record->code == NA_LOADER_DUPLICATE) {
            duplicates++;
            assert_non_null(strstr(record->text, folder));
        } else {
            assert_true(record->loaded);
            assert_int_equal(strncmp(record->path, folder, strlen(folder)), 0);
        }
    }
    assert_int_equal(low, 2); /* the folder named twice counts once */
    assert_int_equal(duplicates, 1);
    NA_Plugin_free_records(records);
}

static void only_exact_names_are_plugins(void **state)
{
    struct na_plugin_record *records;

    (void) state;
    copy_plugin("wires/na_low.so", "libna_low.so");
    copy_plugin("wires/na_low.so", "na_low.so.1");
    copy_plugin("wires/na_low.so", "na_low.so~");
    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    for (const struct na_plugin_record *record = records; record != NULL; record = record->next)
        assert_int_not_equal(strncmp(record->path, folder, strlen(folder)), 0);
    NA_Plugin_free_records(records);
}

/* A plugin's file whose name no init string can contain is listed, with the advice to rename it. */
static void files_with_impossible_names_are_listed_as_such(void **state)
{
    static const char *const names[] = {"bad name", "l.w", "", "a\nb", "\303\244"};
    struct na_plugin_record *records;
    char file[64];

    (void) state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void) snprintf(file, sizeof(file), "na_%s.so", names[i]);
        copy_plugin("wires/na_low.so", file);
    }
    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const struct na_plugin_record *record = find(records, names[i]);

        assert_non_null(record);
        assert_int_equal(record->code, NA_LOADER_BAD_NAME);
        assert_string_equal(NA_Plugin_code_to_string(record->code), "bad name");
        assert_non_null(strstr(record->text, "rename the file"));
        assert_false(record->loaded);
    }
    NA_Plugin_free_records(records);
}

static void a_plugin_that_repeats_its_name_is_shown_once(void **state)
{
    struct na_plugin_record *records;
    const struct na_plugin_info *info;

    (void) state;
    use_plugins("good");
    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    info = find(records, "ownname")->info;
    assert_int_equal(info->class_name_count, 2);
    assert_string_equal(info->class_names[0], "ownname");
    assert_string_equal(info->class_names[1], "other-name");
    NA_Plugin_free_records(records);
}

static void only_the_plugin_that_is_named_is_loaded(void **state)
{
    struct na_plugin_record *records;

    (void) state;
    copy_plugin("wires/na_low.so", "na_low.so");
    copy_plugin("wires/na_high.so", "na_high.so");
    /* the plugin is loaded, but its class cannot be opened */
    assert_null(NA_Initialize("low+wire", false));
    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    assert_int_equal(find(records, "low")->code, NA_LOADER_LOADED);
    assert_int_equal(find(records, "high")->code, NA_LOADER_FOUND);
    NA_Plugin_free_records(records);
    NA_Cleanup(); /* does not load a plugin in order to clean it up */
    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    assert_int_equal(find(records, "high")->code, NA_LOADER_FOUND);
    NA_Plugin_free_records(records);
}

static unsigned int count_missing(void)
{
    struct na_plugin_record *records;
    unsigned int count = 0;

    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    for (const struct na_plugin_record *record = records; record != NULL; record = record->next)
        count += record->code == NA_LOADER_MISSING;
    NA_Plugin_free_records(records);
    return count;
}

/* A file that the core itself looked for is not recorded as missing. */
static void only_what_was_asked_for_is_recorded_as_missing(void **state)
{
    const unsigned int before = count_missing();
    na_class_t *na_class;

    (void) state;
    use_plugins("loop");
    na_class = NA_Initialize("loop-alias+self", false);
    assert_non_null(na_class);
    assert_int_equal(NA_Finalize(na_class), NA_SUCCESS);
    assert_int_equal(count_missing(), before);
    assert_null(NA_Initialize("absent-one+absent-two", false));
    assert_int_equal(count_missing(), before + 1);
}

static void a_missing_plugin_is_recorded_with_the_places_looked_at(void **state)
{
    struct na_plugin_record *records;
    const struct na_plugin_record *record;
    char reason[4096];
    na_class_t *na_class;

    (void) state;
    assert_int_equal(
        NA_Initialize_reason("nosuch+tcp", false, 0, NULL, &na_class, reason, sizeof(reason)),
        NA_NOENTRY);
    assert_null(na_class);
    assert_non_null(strstr(reason, folder));
    assert_int_equal(NA_Plugin_get_records(0, &records), NA_SUCCESS);
    record = find(records, "nosuch");
    assert_non_null(record);
    assert_int_equal(record->code, NA_LOADER_MISSING);
    assert_non_null(strstr(record->text, folder));
    NA_Plugin_free_records(records);
}

static void the_search_path_ends_with_the_built_in_place_wherever_default_stands(void **state)
{
    struct na_search_path path;
    char variable[256], *own;
    size_t size = 0;
    char *buf;

    (void) state;
    assert_int_equal(na_search_path_make(&path, NULL),
                     NA_SUCCESS); /* as in a set-user-ID program */
    assert_int_equal(path.count, 1);
    own = strdup(path.directories[0]);
    na_search_path_free(&path);
    assert_non_null(strstr(own, "/amalgam/abi-1"));

    (void) snprintf(variable, sizeof(variable), "::%s::/nowhere/at/all:", folder);
    assert_int_equal(na_search_path_make(&path, variable), NA_SUCCESS);
    assert_int_equal(path.count, 3);
    assert_string_equal(path.directories[0], folder);
    assert_string_equal(path.directories[2], own);
    na_search_path_free(&path);

    (void) snprintf(variable, sizeof(variable), "<default>:%s", folder);
    assert_int_equal(na_search_path_make(&path, variable), NA_SUCCESS);
    assert_int_equal(path.count, 2);
    assert_string_equal(path.directories[0], own);
    na_search_path_free(&path);

    assert_int_equal(NA_Plugin_get_search_path(NULL, &size), NA_SUCCESS);
    assert_int_equal(size, strlen(folder) + 1 + strlen(own) + 1);
    buf = malloc(size);
    size--;
    assert_int_equal(NA_Plugin_get_search_path(buf, &size), NA_OVERFLOW);
    assert_int_equal(NA_Plugin_get_search_path(buf, &size), NA_SUCCESS);
    assert_non_null(strstr(buf, own));
    free(buf);
    free(own);
}

static void listing_says_what_each_plugin_declares(void **state)
{
    struct na_plugin_record *records;
    const struct na_plugin_info *info;

    (void) state;
    use_plugins("loop");
    assert_int_equal(NA_Plugin_get_records(NA_LOADER_LOAD_ALL, &records), NA_SUCCESS);
    assert_non_null(find(records, "loop"));
    info = find(records, "loop")->info;
    assert_non_null(info);
    assert_string_equal(info->version, "1.0");
    assert_int_equal(info->class_name_count, 2);
    assert_string_equal(info->class_names[1], "loop-alias");
    assert_int_equal(info->protocol_count, 3);
    assert_string_equal(info->protocols[0].name, "self");
    assert_string_equal(info->protocols[0].device_name, "loop0");
    assert_true(info->protocols[0].usable);
    assert_true(info->protocols[0].node_local);
    assert_false(info->protocols[2].usable);
    assert_string_equal(info->protocols[2].reason, "there is no such device");
    assert_true(info->capability_count >= 4);
    assert_string_equal(info->capabilities[0], "rma");
    assert_int_equal(info->limit_count, 3);
    NA_Plugin_free_records(records);
    NA_Plugin_free_records(NULL);
}

static void wrong_arguments_of_the_listing_are_refused(void **state)
{
    struct na_plugin_record *records;

    (void) state;
    assert_int_equal(NA_Plugin_get_records(0, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Plugin_get_records(8, &records), NA_INVALID_ARG);
    assert_int_equal(NA_Plugin_get_search_path(NULL, NULL), NA_INVALID_ARG);
    assert_int_equal(NA_Plugin_get_abi_version(), 1 << 16 | 2);
    assert_non_null(NA_Plugin_stage_to_string((enum na_plugin_stage) 77));
    assert_non_null(NA_Plugin_code_to_string((enum na_plugin_code) 77));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(a_text_file_is_no_shared_object),
        TEST(a_truncated_object_is_found_out_at_every_length),
        TEST(an_object_for_another_machine_is_named_as_such),
        TEST(each_kind_of_bad_plugin_has_its_record),
        TEST(any_minor_and_any_sufficient_length_is_loaded),
        TEST(files_that_others_can_write_to_are_refused),
        TEST(directories_that_others_can_write_to_are_refused),
        TEST(links_are_followed_to_what_is_checked),
        TEST(the_first_of_a_name_wins_and_the_loser_is_reported),
        TEST(only_exact_names_are_plugins),
        TEST(files_with_impossible_names_are_listed_as_such),
        TEST(a_plugin_that_repeats_its_name_is_shown_once),
        TEST(only_the_plugin_that_is_named_is_loaded),
        TEST(only_what_was_asked_for_is_recorded_as_missing),
        TEST(a_missing_plugin_is_recorded_with_the_places_looked_at),
        TEST(the_search_path_ends_with_the_built_in_place_wherever_default_stands),
        TEST(listing_says_what_each_plugin_declares),
        TEST(wrong_arguments_of_the_listing_are_refused),
    };
#undef TEST

    NA_Set_log_level("none");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
