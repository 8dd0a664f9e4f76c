/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of the file, its entry function and its table, without an endpoint. */

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "na_conformance/check.h"
#include "na_conformance/elf_file.h"
#include "na_conformance/end.h"

#define OP_SIZE_MAX 65536u
#define OPTIONS_MAX 32u

/* Result of a walk over the symbols. */
struct symbols {
    char own[256], foreign[256];
};

static const struct na_plugin *table_get(struct na_plugin *copy);
static void file_exports(void);
static void file_imports(void);
static void symbols_collect(void *arg, const char *name, bool defined, bool needed);
static void entry_other_minor(void);
static void entry_other_major(void);
static void table_version(void);
static void table_mandatory(void);
static void table_families(void);
static void table_strings(void);
static void table_name(void);
static void table_op(void);
static void table_extensions(void);
static void table_options(void);
static void extension_check(const char *id, size_t size, size_t members);
static void enumerate_offers(void);
static int32_t offer_check(void *arg, const struct na_plugin_offer *offer);
static bool protocol_is_wellformed(const char *protocol);
static void enumerate_filter(void);
static int32_t offer_compare(void *arg, const struct na_plugin_offer *offer);
static void enumerate_stops(void);
static int32_t offer_refuse(void *arg, const struct na_plugin_offer *offer);

const struct conf_check conf_checks_table[] = {
    {101, "file.exports", "The file exports na_plugin_entry_v1, of its own, and nothing else",
     file_exports, 0},
    {102, "file.imports", "The file imports no symbol of Amalgam and needs none of its libraries",
     file_imports, 0},
    {103, "entry.minor", "A core of a later minor, whose host table is longer, is accepted",
     entry_other_minor, 0},
    {104, "entry.major", "A host of another major is refused with a reason, or left unused",
     entry_other_major, 0},
    {110, "table.version", "The table has this major, and a size that covers what is mandatory",
     table_version, 0},
    {111, "table.mandatory", "Every mandatory function is there", table_mandatory, 0},
    {112, "table.families", "Functions that go together are there together", table_families, 0},
    {113, "table.strings", "Name, version and description are texts of one line", table_strings, 0},
    {114, "table.name", "The table's name is the file's, na_<name>.so", table_name, 0},
    {115, "table.op", "op_align is a power of two up to 128, or 0 with op_size 0", table_op, 0},
    {116, "table.extensions", "Extension tables are complete; an unknown id gives none",
     table_extensions, 0},
    {117, "table.options", "Names of options are well-formed, and each is there once",
     table_options, 0},
    {120, "enumerate.offers", "Offers are well-formed, and what is not usable says why",
     enumerate_offers, 0},
    {121, "enumerate.filter", "Asked for one protocol it reports exactly that, or nothing",
     enumerate_filter, 0},
    {122, "enumerate.stops", "enumerate ends with what the last report returned", enumerate_stops,
     0},
    {0, NULL, NULL, NULL, 0},
};

static const struct na_plugin *table_get(struct na_plugin *copy)
{
    char reason[CONF_REASON_SIZE];
    void *handle = conf_load_file(reason, sizeof(reason));
    const struct na_plugin *table;
    int32_t status;

    conf_require(handle != NULL, "%s", reason);
    table = conf_load_enter(handle, conf_host(), &status, reason, sizeof(reason));
    conf_require(table != NULL, "%s", reason);
    conf_require(conf_load_table(table, copy), "version %#x, size %u", table->abi_version,
                 table->size);
    return table;
}

/* Names that begin with an underscore belong to the compiler and the linker. */
static void file_exports(void)
{
    struct symbols symbols = {.own = ""};
    char reason[CONF_REASON_SIZE];
    void *handle = conf_load_file(reason, sizeof(reason)), *symbol;
    char asked[4096], found[4096];
    Dl_info info;

    conf_require(handle != NULL, "%s", reason);
    symbol = dlsym(handle, NA_PLUGIN_ENTRY_SYMBOL);
    conf_require(symbol != NULL, "there is no symbol %s", NA_PLUGIN_ENTRY_SYMBOL);
    conf_require(dladdr(symbol, &info) != 0 && realpath(info.dli_fname, found) != NULL &&
                     realpath(conf_settings.plugin, asked) != NULL,
                 "it cannot be said where %s is", NA_PLUGIN_ENTRY_SYMBOL);
    conf_require(strcmp(asked, found) == 0, "%s is in %s, a dependency of the file",
                 NA_PLUGIN_ENTRY_SYMBOL, found);
    conf_require(
        conf_elf_read(conf_settings.plugin, symbols_collect, &symbols, reason, sizeof(reason)),
        "the file %s", reason);
    conf_require(symbols.own[0] == '\0', "it also exports %s, with which others may collide",
                 symbols.own);
}

static void file_imports(void)
{
    struct symbols symbols = {.own = ""};
    char reason[CONF_REASON_SIZE];

    conf_require(
        conf_elf_read(conf_settings.plugin, symbols_collect, &symbols, reason, sizeof(reason)),
        "the file %s", reason);
    conf_require(symbols.foreign[0] == '\0', "it needs %s", symbols.foreign);
}

static void symbols_collect(void *arg, const char *name, bool defined, bool needed)
{
    static const char *const prefixes[] = {"NA_", "HG_", "hg_", "na_"};
    struct symbols *symbols = arg;

    if (needed && strstr(name, "libamalgam") != NULL)
        (void) snprintf(symbols->foreign, sizeof(symbols->foreign), "%s", name);
    if (needed || name[0] == '\0')
        return;
    if (defined && strcmp(name, NA_PLUGIN_ENTRY_SYMBOL) != 0 && name[0] != '_')
        (void) snprintf(symbols->own, sizeof(symbols->own), "%s", name);
    for (size_t i = 0; !defined && i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            (void) snprintf(symbols->foreign, sizeof(symbols->foreign), "%s", name);
}

static void entry_other_minor(void)
{
    char reason[CONF_REASON_SIZE];
    void *handle = conf_load_file(reason, sizeof(reason));
    int32_t status;

    conf_require(handle != NULL, "%s", reason);
    conf_require(conf_load_enter(handle, conf_host_of(NA_PLUGIN_ABI_VERSION + 7), &status, reason,
                                 sizeof(reason)) != NULL,
                 "minor %u: %s", NA_PLUGIN_ABI_MINOR + 7, reason);
}

/* The core refuses such a plugin by its table's version in any case. */
static void entry_other_major(void)
{
    char reason[CONF_REASON_SIZE];
    void *handle = conf_load_file(reason, sizeof(reason));
    const struct na_plugin *table;
    int32_t status;

    conf_require(handle != NULL, "%s", reason);
    table = conf_load_enter(handle, conf_host_of((NA_PLUGIN_ABI_MAJOR + 1) << 16), &status, reason,
                            sizeof(reason));
    conf_require(table != NULL || strstr(reason, "without a reason") == NULL, "%s", reason);
    conf_require(table == NULL || table->abi_version >> 16 == NA_PLUGIN_ABI_MAJOR,
                 "the table says version %#x", table != NULL ? table->abi_version : 0);
}

static void table_version(void)
{
    struct na_plugin table;

    (void) table_get(&table);
    conf_require(table.size <= (1u << 16), "the table's size is %u bytes", table.size);
    conf_note("ABI %u.%u, %u bytes", table.abi_version >> 16, table.abi_version & 0xffff,
              table.size);
}

static void table_mandatory(void)
{
    struct na_plugin table;

    (void) table_get(&table);
    conf_require(table.enumerate != NULL && table.initialize != NULL && table.finalize != NULL,
                 "enumerate, initialize or finalize is missing");
    conf_require(table.context_create != NULL && table.context_stop != NULL &&
                     table.context_destroy != NULL,
                 "context_create, context_stop or context_destroy is missing");
    conf_require(table.addr_lookup != NULL && table.addr_free != NULL && table.addr_dup != NULL &&
                     table.addr_self != NULL && table.addr_is_self != NULL &&
                     table.addr_compare != NULL && table.addr_to_string != NULL,
                 "a function of addresses is missing");
    conf_require(table.msg_send_unexpected != NULL && table.msg_recv_unexpected != NULL &&
                     table.msg_send_expected != NULL && table.msg_recv_expected != NULL,
                 "a function of messages is missing");
    conf_require(table.poll != NULL && table.cancel != NULL, "poll or cancel is missing");
}

static void table_families(void)
{
    struct na_plugin table;
    bool rma;

    (void) table_get(&table);
    conf_require((table.op_initialize != NULL) >= (table.op_finalize != NULL),
                 "there is op_finalize and no op_initialize");
    conf_require((table.msg_buf_alloc != NULL) == (table.msg_buf_free != NULL),
                 "one of msg_buf_alloc and msg_buf_free is missing");
    rma = table.mem_create != NULL;
    conf_require(!rma || (table.mem_destroy != NULL && table.mem_serialize_size != NULL &&
                          table.mem_serialize != NULL && table.mem_deserialize != NULL),
                 "there is mem_create, and a function that goes with it is missing");
    conf_require(rma || (table.put == NULL && table.get == NULL),
                 "there is put or get and no mem_create");
    conf_require((table.mem_register != NULL) == (table.mem_deregister != NULL),
                 "one of mem_register and mem_deregister is missing");
    conf_require((table.capabilities & NA_PLUGIN_CAP_RMA) == 0 ||
                     (table.put != NULL && table.get != NULL),
                 "it says that it has RMA, and put or get is missing");
    conf_require((table.capabilities & NA_PLUGIN_CAP_WAIT_FD) == 0 || table.poll_get_fd != NULL,
                 "it says that it waits by descriptor, and poll_get_fd is missing");
}

static void table_strings(void)
{
    struct na_plugin table;
    const char *texts[3];

    (void) table_get(&table);
    texts[0] = table.name;
    texts[1] = table.version;
    texts[2] = table.description;
    for (int i = 0; i < 3; i++) {
        conf_require(texts[i] != NULL && texts[i][0] != '\0', "text %d is missing", i);
        for (const char *c = texts[i]; *c != '\0'; c++)
            conf_require((unsigned char) *c >= ' ' && *c != 0x7f,
                         "text %d has the control character %#x", i, (unsigned int) *c);
    }
    for (int i = 0; table.class_names != NULL && table.class_names[i] != NULL; i++)
        conf_require(i < 64 && strchr(table.class_names[i], '+') == NULL &&
                         table.class_names[i][0] != '\0',
                     "class name %d is '%s'", i, table.class_names[i]);
}

static void table_name(void)
{
    const char *slash = strrchr(conf_settings.plugin, '/');
    const char *file = slash != NULL ? slash + 1 : conf_settings.plugin;
    struct na_plugin table;
    char wanted[256];

    (void) table_get(&table);
    (void) snprintf(wanted, sizeof(wanted), "na_%s.so", table.name);
    conf_require(strcmp(file, wanted) == 0, "the file is %s, the table's name is '%s'", file,
                 table.name);
}

static void table_op(void)
{
    struct na_plugin table;

    (void) table_get(&table);
    conf_require(table.op_size <= OP_SIZE_MAX, "op_size is %u", table.op_size);
    conf_require((table.op_align & (table.op_align - 1)) == 0 && table.op_align <= 128,
                 "op_align is %u", table.op_align);
    conf_require((table.op_align == 0) == (table.op_size == 0), "op_size is %u and op_align is %u",
                 table.op_size, table.op_align);
    conf_note("%u bytes at %u", table.op_size, table.op_align);
}

static void table_extensions(void)
{
    conf_load();
    if (conf_plugin.table.get_extension == NULL)
        conf_skip("it has no extensions");
    extension_check(NA_PLUGIN_EXT_MEM_SEGMENTS, sizeof(struct na_plugin_mem_segments), 1);
    extension_check(NA_PLUGIN_EXT_MULTI_RECV, sizeof(struct na_plugin_multi_recv), 1);
    extension_check(NA_PLUGIN_EXT_ADDR_SERIALIZE, sizeof(struct na_plugin_addr_serialize), 3);
    extension_check(NA_PLUGIN_EXT_COUNTERS, sizeof(struct na_plugin_counters), 1);
    extension_check(NA_PLUGIN_EXT_MEM_ALLOC, sizeof(struct na_plugin_mem_alloc), 2);
    conf_require(conf_plugin.table.get_extension("org.example.nothing/1") == NULL &&
                     conf_plugin.table.get_extension("na.multi_recv/999") == NULL &&
                     conf_plugin.table.get_extension("") == NULL,
                 "an id that nobody knows gives a table");
    conf_require(conf_plugin.segments == NULL || conf_plugin.segments->max_segments >= 2,
                 "max_segments is less than 2");
}

static void table_options(void)
{
    const char *const *names;
    struct na_plugin table;
    unsigned int count = 0;

    (void) table_get(&table);
    names = table.option_names;
    if (names == NULL)
        conf_skip("it has no options");
    for (; names[count] != NULL; count++) {
        conf_require(count < OPTIONS_MAX, "there are more than %u", OPTIONS_MAX);
        conf_require(conf_name_is_wellformed(names[count]),
                     "the name '%.64s' is not made of up to 32 of a-z, 0-9 and _", names[count]);
        for (unsigned int i = 0; i < count; i++)
            conf_require(strcmp(names[i], names[count]) != 0, "'%s' is there twice", names[i]);
    }
    conf_note("%u options", count);
}

bool conf_name_is_wellformed(const char *name)
{
    const size_t length = strlen(name);

    return length > 0 && length <= 32 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

/* The functions are the last members of an extension's table. */
static void extension_check(const char *id, size_t size, size_t members)
{
    const struct na_plugin_extension *extension = conf_plugin.table.get_extension(id);
    void (*functions[3])(void);

    if (extension == NULL)
        return;
    conf_require(extension->size >= size, "%s has %u bytes, and %zu belong to it", id,
                 extension->size, size);
    conf_require(extension->reserved == 0, "%s: the reserved member is not 0", id);
    memcpy((void *) functions, (const uint8_t *) extension + size - members * sizeof(functions[0]),
           members * sizeof(functions[0]));
    for (size_t i = 0; i < members; i++)
        conf_require(functions[i] != NULL, "%s has not all its functions", id);
    conf_require(conf_plugin.table.get_extension(id) == (const void *) extension,
                 "%s is another table the second time", id);
}

static void enumerate_offers(void)
{
    unsigned int count = 0;
    int32_t status;

    conf_load();
    status = conf_plugin.table.enumerate(NULL, offer_check, &count);
    conf_require(status == NA_PLUGIN_SUCCESS, "enumerate returned %s", conf_status_name(status));
    conf_require(count > 0, "it offers nothing");
    conf_note("%u offers", count);
}

static int32_t offer_check(void *arg, const struct na_plugin_offer *offer)
{
    const uint32_t known =
        NA_PLUGIN_OFFER_USABLE | NA_PLUGIN_OFFER_NODE_LOCAL | NA_PLUGIN_OFFER_NAMED_ONLY;

    ++*(unsigned int *) arg;
    conf_require(offer->protocol != NULL && protocol_is_wellformed(offer->protocol),
                 "the protocol '%s' is not well-formed",
                 offer->protocol != NULL ? offer->protocol : "(NULL)");
    conf_require((offer->flags & ~known) == 0, "%s has flags %#x", offer->protocol, offer->flags);
    conf_require((offer->flags & NA_PLUGIN_OFFER_USABLE) != 0 ||
                     (offer->reason != NULL && offer->reason[0] != '\0'),
                 "%s is not usable, for no reason", offer->protocol);
    return NA_PLUGIN_SUCCESS;
}

static bool protocol_is_wellformed(const char *protocol)
{
    const size_t length = strlen(protocol);

    if (length == 0 || protocol[0] == '+' || protocol[length - 1] == '+')
        return false;
    for (size_t i = 0; i < length; i++)
        if ((!isalnum((unsigned char) protocol[i]) && strchr("_-.;+", protocol[i]) == NULL) ||
            (protocol[i] == '+' && protocol[i + 1] == '+'))
            return false;
    return true;
}

struct filter {
    const char *protocol;
    unsigned int others, usable;
};

static void enumerate_filter(void)
{
    struct filter filter = {.protocol = "no-such.protocol"};
    int32_t status;

    conf_load();
    status = conf_plugin.table.enumerate(filter.protocol, offer_compare, &filter);
    conf_require(filter.usable == 0, "it offers a protocol '%s'", filter.protocol);
    filter = (struct filter){.protocol = conf_plugin.protocol};
    status = conf_plugin.table.enumerate(filter.protocol, offer_compare, &filter);
    conf_require(status == NA_PLUGIN_SUCCESS, "enumerate of '%s' returned %s", filter.protocol,
                 conf_status_name(status));
    conf_require(filter.others == 0, "asked for '%s' it reports others, too", filter.protocol);
    conf_require(filter.usable > 0, "asked for '%s' it reports nothing that can be used",
                 filter.protocol);
}

static int32_t offer_compare(void *arg, const struct na_plugin_offer *offer)
{
    struct filter *filter = arg;

    if (offer->protocol == NULL || strcmp(offer->protocol, filter->protocol) != 0)
        filter->others++;
    else
        filter->usable += offer->flags & NA_PLUGIN_OFFER_USABLE;
    return NA_PLUGIN_SUCCESS;
}

static void enumerate_stops(void)
{
    unsigned int calls = 0;
    int32_t status;

    conf_load();
    status = conf_plugin.table.enumerate(NULL, offer_refuse, &calls);
    conf_require(status == NA_PLUGIN_INTERRUPT, "report returned INTERRUPT, enumerate returned %s",
                 conf_status_name(status));
    conf_require(calls == 1, "report returned INTERRUPT and was called %u times", calls);
}

static int32_t offer_refuse(void *arg, const struct na_plugin_offer *offer)
{
    (void) offer;
    ++*(unsigned int *) arg;
    return NA_PLUGIN_INTERRUPT;
}
