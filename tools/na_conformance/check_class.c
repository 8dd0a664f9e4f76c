/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of classes: opening, closing, limits, failures in between. */

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "common/tool_clock.h"
#include "na_conformance/check.h"
#include "na_conformance/elf_file.h"
#include "na_conformance/exchange.h"
#include "na_conformance/peer.h"
#include "na_conformance/traffic.h"

#define GROWTHS      60u /* after so many rounds with growth there is a leak */
#define COUNTERS_MAX 24u /* maximum number of counters per class */
#define STAYS        2u  /* rounds without growth that a leak may have, for malloc() has caches */

static void open_close(void);
static void again(void);
static unsigned int count_entries(const char *directory);
static uint64_t heap_in_use(void);
static void heap_judge(void);
static void find_library(void *arg, const char *name, bool defined, bool needed);
static void info(void);
static void memory_fails(void);
static int32_t open_with_failure(int64_t after);
static void many(void);
static void origin(void);
static void forgotten(void);
static void forgotten_memory(void);
static void require_nothing_left(void);
static void hints(void);
static void hints_try(uint64_t size);
static void single_threaded(void);
static void unreceived(void);
static void first_minor(void);
static void counters(void);
static void counter_check(void *arg, const char *name, uint64_t value);

const struct conf_check conf_checks_class[] = {
    {201, "class.open", "An endpoint is opened and closed", open_close, 0},
    {202, "class.again", "Opening and closing again keeps no memory, descriptors or threads", again,
     180},
    {203, "class.info", "Limits and capabilities are within what is promised", info, 0},
    {205, "class.failed", "finalize takes a class of which initialize failed, at any point",
     memory_fails, 180},
    {206, "class.many", "Several endpoints live in one process and exchange messages", many, 0},
    {207, "class.origin", "An endpoint that does not listen calls and is answered", origin, 0},
    {208, "class.forgotten", "finalize frees addresses that were forgotten", forgotten, 0},
    {209, "class.hints", "Hints of message sizes give limits within what is promised", hints, 0},
    {210, "class.threads", "Promises of a single thread change nothing else", single_threaded, 0},
    {211, "class.unreceived", "Messages that nobody received go with the class, and harm no peer",
     unreceived, 0},
    {212, "class.forgotten.memory", "finalize frees memory handles that were forgotten",
     forgotten_memory, 0},
    {213, "class.first",
     "A core of minor 0, whose tables end earlier, is served; nothing behind them is touched",
     first_minor, 0},
    {214, "class.counters",
     "Counters are the same each time, have names of their own and only grow", counters, 0},
    {0, NULL, NULL, NULL, 0},
};

static void open_close(void)
{
    struct conf_end end;

    conf_load();
    conf_open(&end, NULL);
    conf_note("%s", end.address);
    conf_progress_ms(10);
    conf_close(&end);
}

/* The first rounds may set up process-wide state. malloc() fills its caches at first; a leak
 * makes the heap grow in every round. */
static void again(void)
{
    const unsigned int count = conf_settings.fast ? 5 : 50;
    unsigned int descriptors = 0, threads = 0;
    uint64_t allocations = 0, heap = 0, before;
    unsigned int stays = 0;
    struct conf_end end;

    conf_load();
    for (unsigned int i = 0; i < count + 3 || (stays <= STAYS && i < GROWTHS); i++) {
        before = heap;
        conf_open(&end, NULL);
        conf_progress();
        conf_close(&end);
        heap = heap_in_use();
        stays += heap <= before;
        if (i != 2)
            continue;
        descriptors = count_entries("/proc/self/fd");
        threads = count_entries("/proc/self/task");
        allocations = conf_host_allocations();
    }
    tool_clock_sleep_ms(100); /* terminating threads need time to end */
    conf_require(count_entries("/proc/self/fd") <= descriptors, "%u descriptors became %u",
                 descriptors, count_entries("/proc/self/fd"));
    conf_require(count_entries("/proc/self/task") <= threads, "%u threads became %u", threads,
                 count_entries("/proc/self/task"));
    conf_require(conf_host_allocations() <= allocations, "%llu allocations became %llu",
                 (unsigned long long) allocations, (unsigned long long) conf_host_allocations());
    conf_note("%u times", count);
    if (stays <= STAYS)
        heap_judge();
}

/* The leak may be in a library of a third party, for which the plugin does not fail. */
static void heap_judge(void)
{
    char library[256] = "", reason[CONF_REASON_SIZE];

    (void) conf_elf_read(conf_settings.plugin, find_library, library, reason, sizeof(reason));
    conf_require(library[0] != '\0',
                 "in all but %u of %u times there was more of malloc()'s memory in use", STAYS,
                 GROWTHS);
    conf_note("in all but %u of %u times there was more of malloc()'s memory in use, of the "
              "plugin's or of "
              "%s",
              STAYS, GROWTHS, library);
}

/* Finds a library that the file needs and that is not part of the C tool chain. */
static void find_library(void *arg, const char *name, bool defined, bool needed)
{
    static const char *const usual[] = {"libc.",   "libm.",    "libpthread.", "libdl.",
                                        "librt.",  "libgcc_s", "libstdc++",   "ld-linux",
                                        "libasan", "libubsan", "libtsan"};
    bool is_usual = !needed || defined;

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        is_usual = is_usual || strncmp(name, usual[i], strlen(usual[i])) == 0;
    if (!is_usual && *(const char *) arg == '\0')
        (void) snprintf(arg, 256, "%s", name);
}

/* Bytes that malloc() has handed out in the process; 0 if unknown. */
static uint64_t heap_in_use(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    return mallinfo2().uordblks;
#else
    return 0;
#endif
}

static unsigned int count_entries(const char *directory)
{
    DIR *entries = opendir(directory);
    unsigned int count = 0;

    while (entries != NULL && readdir(entries) != NULL)
        count++;
    if (entries != NULL)
        (void) closedir(entries);
    return count;
}

static void info(void)
{
    struct na_plugin_class_info *found;
    struct conf_end end;

    conf_load();
    conf_open(&end, NULL);
    found = &end.info;
    for (int expected = 0; expected < 2; expected++) {
        const uint64_t size = conf_max_message(&end, expected != 0);
        const uint64_t header = conf_header(&end, expected != 0);

        conf_require(header <= 4096 && size >= header + 256 && size <= (1u << 30),
                     "the largest %s message has %llu bytes, %llu of them header",
                     expected ? "expected" : "unexpected", (unsigned long long) size,
                     (unsigned long long) header);
        conf_require(header == 0 || (expected ? conf_plugin.table.msg_init_expected
                                              : conf_plugin.table.msg_init_unexpected) != NULL,
                     "there is a header, and no function that writes it");
    }
    conf_require(found->max_rma_size == 0 || found->max_rma_size >= 4096, "max_rma_size is %llu",
                 (unsigned long long) found->max_rma_size);
    conf_require((found->capabilities & ~conf_plugin.table.capabilities) == 0,
                 "the class has capabilities %#llx, the plugin only %#llx",
                 (unsigned long long) found->capabilities,
                 (unsigned long long) conf_plugin.table.capabilities);
    conf_require(found->max_tag >= 255, "max_tag is %u", found->max_tag);
    conf_require((found->capabilities & NA_PLUGIN_CAP_WAIT_FD) == 0 ||
                     conf_plugin.table.poll_get_fd(end.contexts[0]) >= 0,
                 "the class waits by descriptor, and has none");
    conf_note("messages of %llu and %llu bytes, max_tag %u, capabilities %#llx",
              (unsigned long long) found->max_unexpected_size,
              (unsigned long long) found->max_expected_size, found->max_tag,
              (unsigned long long) found->capabilities);
    conf_close(&end);
}

/* Initializes again and again; in round n, all allocations of the host after the first n fail. */
static void memory_fails(void)
{
    uint64_t before, needed;
    struct conf_end end;
    unsigned int failed = 0;

    conf_load();
    before = conf_host_allocated();
    conf_open(&end, NULL);
    needed = conf_host_allocated() - before;
    conf_close(&end);
    before = conf_host_allocations();
    for (uint64_t after = 0; after < needed; after += 1 + (after > 16 ? after / 4 : 0)) {
        failed += open_with_failure((int64_t) after) != NA_PLUGIN_SUCCESS;
        conf_require(conf_host_allocations() <= before,
                     "when allocation %llu fails, %llu others are kept", (unsigned long long) after,
                     (unsigned long long) (conf_host_allocations() - before));
    }
    conf_open(&end, NULL);
    conf_close(&end);
    conf_note("%u failures among %llu allocations", failed, (unsigned long long) needed);
}

static int32_t open_with_failure(int64_t after)
{
    struct conf_end end;
    int32_t status;

    conf_host_fail_allocation(after);
    status = conf_try_open(&end, NULL);
    conf_host_fail_allocation(-1);
    if (status == NA_PLUGIN_SUCCESS)
        conf_close(&end);
    return status;
}

static void many(void)
{
    enum {
        ENDS = 4
    };
    struct conf_end ends[ENDS];
    struct conf_buffer in, out;
    int32_t status;

    conf_load();
    conf_open(&ends[0], NULL);
    for (int i = 1; i < ENDS; i++) {
        status = conf_try_open(&ends[i], NULL);
        if (i == 1 && status != NA_PLUGIN_SUCCESS)
            conf_skip("a second class in the process: %s", conf_status_name(status));
        conf_require(status == NA_PLUGIN_SUCCESS, "class %d: %s", i, conf_status_name(status));
    }
    for (int i = 0; i < ENDS * ENDS; i++) {
        struct conf_end *from = &ends[i / ENDS], *to = &ends[i % ENDS];
        const uint64_t header = conf_header(from, false);
        struct na_plugin_addr *addr = conf_lookup(from, to->address);
        struct conf_op *op = conf_op_new(to);

        conf_buffer_get(&in, to, header + 100, NA_PLUGIN_BUF_RECV, false);
        conf_buffer_get(&out, from, header + 100, NA_PLUGIN_BUF_SEND, false);
        conf_fill(out.data + header, 100, (uint64_t) i);
        conf_must_recv(to, 0, op, &in);
        conf_send_wait(from, 0, &out, header + 100, addr, 0, 3, false);
        conf_wait_ok(op, "a receive");
        conf_require(conf_is_filled(in.data + header, 100, (uint64_t) i) < 0,
                     "the message from class %d to class %d is another one", i / ENDS, i % ENDS);
        conf_addr_free(to, op->source);
        conf_addr_free(from, addr);
        conf_buffer_put(&in);
        conf_buffer_put(&out);
    }
    for (int i = 0; i < ENDS; i++)
        conf_close(&ends[i]);
}

static void origin(void)
{
    const struct conf_open how = {.origin_only = true};
    struct conf_traffic traffic;

    conf_traffic_open_with(&traffic, CONF_PEER_ECHO, 8, &how);
    for (uint32_t i = 0; i < 100; i++)
        conf_traffic_echo(&traffic, 100, i);
    conf_traffic_close(&traffic);
}

static void forgotten(void)
{
    struct conf_peer peer;
    struct conf_end end;

    conf_pair_open(&peer, &end, NULL);
    for (int i = 0; i < 3; i++)
        (void) conf_lookup(&end, peer.address);
    conf_close(&end);
    conf_peer_stop(&peer);
    require_nothing_left();
}

/* A registered memory handle of our own, and a deserialized one. */
static void forgotten_memory(void)
{
    uint8_t handle[CONF_HANDLE_SIZE];
    struct conf_memory memory;
    struct conf_end end;
    uint64_t size;

    conf_load();
    conf_exchange_require_rma();
    conf_open(&end, NULL);
    conf_memory_open(&memory, &end, 4096, 1, NA_PLUGIN_MEM_READ);
    size = conf_memory_serialize(&memory, handle, sizeof(handle));
    (void) conf_memory_deserialize(&end, handle, size);
    conf_close(&end);
    require_nothing_left();
}

static void require_nothing_left(void)
{
    const uint64_t left = conf_host_allocations();

    if (left != 0 && conf_plugin.table.cleanup != NULL)
        conf_plugin.table.cleanup();
    conf_require(conf_host_allocations() == 0, "%llu allocations are left",
                 (unsigned long long) conf_host_allocations());
}

static void hints(void)
{
    conf_load();
    hints_try(1);
    hints_try(10000);
    hints_try(1 << 20);
    hints_try(UINT64_MAX / 2);
}

static void hints_try(uint64_t size)
{
    const struct conf_open how = {.message_size = size};
    struct conf_end end;

    conf_open(&end, &how);
    for (int expected = 0; expected < 2; expected++)
        conf_require(
            conf_max_message(&end, expected != 0) >= conf_header(&end, expected != 0) + 256 &&
                conf_max_message(&end, expected != 0) <= (1u << 30),
            "with a hint of %llu the largest message has %llu bytes", (unsigned long long) size,
            (unsigned long long) conf_max_message(&end, expected != 0));
    conf_close(&end);
}

static void single_threaded(void)
{
    const struct conf_open how = {.thread_mode = NA_PLUGIN_THREAD_SINGLE_CLASS |
                                                 NA_PLUGIN_THREAD_SINGLE_CONTEXT};
    struct conf_traffic traffic;

    conf_traffic_open_with(&traffic, CONF_PEER_ECHO, 8, &how);
    for (uint32_t i = 0; i < 200; i++)
        conf_traffic_echo(&traffic, i, i);
    conf_traffic_close(&traffic);
}

/* Names and values of the counters in the first round, and the position in the second one. */
struct counted {
    char names[COUNTERS_MAX][33];
    uint64_t values[COUNTERS_MAX];
    unsigned int count, again;
    bool is_first;
};

static void counters(void)
{
    static struct counted counted;
    struct conf_traffic traffic;

    conf_traffic_open(&traffic, CONF_PEER_ECHO, 8);
    if (conf_plugin.counters == NULL)
        conf_traffic_skip(&traffic, "it counts nothing");
    for (uint32_t i = 0; i < 10; i++) {
        counted.again = 0;
        counted.is_first = i == 0;
        conf_plugin.counters->counters_get(traffic.end.na_class, counter_check, &counted);
        conf_require(counted.again == counted.count, "there are %u counters, there were %u",
                     counted.again, counted.count);
        conf_traffic_echo(&traffic, 64, i);
    }
    conf_note("%u counters", counted.count);
    conf_traffic_close(&traffic);
}

static void counter_check(void *arg, const char *name, uint64_t value)
{
    struct counted *counted = arg;
    const unsigned int i = counted->again++;

    conf_require(name != NULL && conf_name_is_wellformed(name),
                 "the name '%.64s' is not made of up to 32 of a-z, 0-9 and _",
                 name != NULL ? name : "(NULL)");
    conf_require(i < COUNTERS_MAX, "there are more than %u counters", COUNTERS_MAX);
    if (counted->is_first) {
        for (unsigned int j = 0; j < i; j++)
            conf_require(strcmp(counted->names[j], name) != 0, "'%s' is there twice", name);
        (void) snprintf(counted->names[i], sizeof(counted->names[i]), "%s", name);
        counted->count++;
    }
    conf_require(i < counted->count && strcmp(counted->names[i], name) == 0,
                 "counter %u is '%s', and was '%s'", i, name, counted->names[i]);
    conf_require(value >= counted->values[i], "'%s' has fallen from %llu to %llu", name,
                 (unsigned long long) counted->values[i], (unsigned long long) value);
    counted->values[i] = value;
}

static void unreceived(void)
{
    struct conf_traffic traffic;
    struct conf_end end;

    conf_traffic_open(&traffic, CONF_PEER_COUNT, 8);
    conf_peer_send(&traffic.peer, CONF_PEER_SEND, &traffic.end, CONF_PEER_UNEXPECTED, 20, 100, 0);
    conf_progress_ms(100);
    conf_addr_free(&traffic.end, traffic.peer.addr);
    conf_close(&traffic.end);
    conf_open(&end, NULL);
    traffic.end = end;
    conf_close(&end);
    conf_peer_tell(&traffic.peer, CONF_PEER_REPORT, CONF_PEER_COUNT, 0);
    conf_peer_stop(&traffic.peer);
}

static void first_minor(void)
{
    const struct conf_open how = {.first_minor = true};
    struct conf_buffer in, out;
    struct conf_end end;
    struct conf_op *op;
    uint64_t header;

    conf_load_into(conf_host_first());
    conf_open(&end, &how);
    header = conf_header(&end, false);
    op = conf_op_new(&end);
    conf_buffer_get(&in, &end, header + 100, NA_PLUGIN_BUF_RECV, false);
    conf_buffer_get(&out, &end, header + 100, NA_PLUGIN_BUF_SEND, false);
    conf_fill(out.data + header, 100, 5);
    conf_must_recv(&end, 0, op, &in);
    conf_send_wait(&end, 0, &out, header + 100, end.self, 0, 3, false);
    conf_wait_ok(op, "a receive");
    conf_require(conf_is_filled(in.data + header, 100, 5) < 0, "a message to oneself is another");
    conf_addr_free(&end, op->source);
    conf_buffer_put(&in);
    conf_buffer_put(&out);
    conf_close(&end);
}
