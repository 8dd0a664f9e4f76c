/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of hg_perf. */

#include "hg_perf/perf_options.h"
#include "mercury_ext.h"

#include <stdio.h>
#include <string.h>

#include "common/tool_message.h"
#include "common/tool_options.h"

static const char help_text[] =
    "NAME\n"
    "    hg_perf - measure RPC, bulk data and the machine under them\n"
    "\n"
    "SYNOPSIS\n"
    "    hg_perf rpc|bulk|na|idle|limits|sweep [OPTION]...\n"
    "    hg_perf rpc|bulk|na|idle --listen [OPTION]...\n"
    "\n"
    "DESCRIPTION\n"
    "    Starts a target process of its own, measures, prints a table or JSON, and ends the "
    "target.\n"
    "    Origin and target run a loop that services have; --loop says which.\n"
    "\n"
    "    rpc      round trips of an RPC with --size bytes of input and of output (default 8)\n"
    "    bulk     RPCs whose target pulls (or pushes) --size bytes (default 1M) of the origin's "
    "memory\n"
    "    na       the same below RPC: messages answered by messages, or --op put, --op get\n"
    "    idle     processor time of a target that waits, with --clients connected\n"
    "    limits   what the machine does without any of this: round trip of a cache line and of an\n"
    "             eventfd between two processes, memcpy, process_vm_readv and process_vm_writev;\n"
    "             medians of several rounds, with the least and the most\n"
    "    sweep    rpc or bulk (--kind) over --sizes and --depths; writes OUTPUT.json and "
    "OUTPUT.svg\n"
    "\n"
    "OPTIONS\n"
    "    --init STRING      init string of both sides (default na+sm); an address in it is the\n"
    "                       target's, unless --target is given\n"
    "    --size BYTES       payload; k, M and G are powers of 1024\n"
    "    --in-flight N      operations that each thread keeps outstanding (default 1)\n"
    "    --every US         rpc, bulk: start an operation so many microseconds after the last one\n"
    "                       started, or when that has ended; the origin spins in between\n"
    "    --seconds S        measured time (default 2; limits 5, each point of a sweep 0.5)\n"
    "    --busy             both sides poll and never sleep\n"
    "    --poll US          microseconds to poll before sleep, on both sides "
    "(HG_Class_set_poll_time())\n"
    "    --loop LOOP        how threads make progress and run callbacks, but in na:\n"
    "                       trigger-all  HG_Trigger() while there is something, HG_Progress()\n"
    "                       trigger-one  HG_Progress(), HG_Trigger() of one, and again\n"
    "                       event        HG_Event_ready(), poll(), HG_Event_progress() and\n"
    "                                    HG_Event_trigger() of what it counted\n"
    "                       request      hg_request_wait() for the next RPC; the target's is\n"
    "                                    trigger-one\n"
    "                       default: trigger-all. A thread that serves several --clients waits "
    "for\n"
    "                       the events of all, and takes no other loop\n"
    "    --threads N        threads on both sides, each with a context of its own (default 1)\n"
    "    --clients N        origin endpoints (default 1); prints what the memory of a peer is\n"
    "    --processes N      processes they are in (default: one each, at most 16)\n"
    "    --push             bulk: the target writes to the origin\n"
    "    --allocated        bulk, na: the library allocates the memory of the side that does not "
    "start\n"
    "                       the transfer, the origin's in bulk; it is faster over na+sm\n"
    "    --transfers N      bulk: transfers of each RPC, one after the other (default 1)\n"
    "    --op OP            na: message (default), put or get\n"
    "    --with-limits      measure the limits, too, for as long again, in rounds that take turns\n"
    "                       with this measurement's; the ratios are medians of the rounds'. Busy\n"
    "                       targets that --target names should be idle or on other cores\n"
    "    --bind CORE,CORE   cores of the origins and of the target (default: not bound)\n"
    "    --target ADDRESS   use this target; it was started with --listen and the same --threads\n"
    "    --listen           be a target: print the address and answer until a signal\n"
    "    --kind rpc|bulk    sweep: what to measure (default rpc)\n"
    "    --sizes LIST       sweep: sizes, separated by commas\n"
    "    --depths LIST      sweep: values of --in-flight\n"
    "    --output NAME      sweep: beginning of the file names (default hg_perf-sweep)\n"
    "    --key-file FILE    the first line of FILE is a key (auth_key) of both sides; without it\n"
    "                       HG_PERF_KEY of the environment is, if it is set\n"
    "    --encrypt          nothing that travels can be read without the key\n"
    "    --json             print one JSON object\n"
    "    --help             print this text\n"
    "\n"
    "    Latencies are of single operations, as the origin sees them. MBps is 10^6 bytes a "
    "second.\n"
    "    Ratios to the machine's limits are printed for transports within one machine. Which way "
    "na+sm\n"
    "    moves data, cross-memory attach or copies, is in its log: HG_LOG_LEVEL=info.\n"
    "\n"
    "ENVIRONMENT\n"
    "    NA_PLUGIN_PATH  directories to search for plugins, separated by colons\n"
    "\n"
    "EXIT STATUS\n"
    "    0 measured, 1 failed (an operation, too), 2 wrong command line, 128+N ended by signal N,\n"
    "    which is how --listen ends\n"
    "\n"
    "EXAMPLES\n"
    "    hg_perf rpc --busy --with-limits\n"
    "    hg_perf rpc --in-flight 32 --json\n"
    "    hg_perf bulk --size 4M --with-limits\n"
    "    hg_perf rpc --clients 1000 --seconds 5\n";

enum option_id {
    OPTION_INIT = TOOL_OPTION_FIRST,
    OPTION_SIZE,
    OPTION_IN_FLIGHT,
    OPTION_SECONDS,
    OPTION_BUSY,
    OPTION_LOOP,
    OPTION_THREADS,
    OPTION_CLIENTS,
    OPTION_PROCESSES,
    OPTION_PUSH,
    OPTION_ALLOCATED,
    OPTION_TRANSFERS,
    OPTION_OP,
    OPTION_WITH_LIMITS,
    OPTION_BIND,
    OPTION_TARGET,
    OPTION_LISTEN,
    OPTION_KIND,
    OPTION_SIZES,
    OPTION_DEPTHS,
    OPTION_OUTPUT,
    OPTION_JSON,
    OPTION_ADDRESS_FD,
    OPTION_KEY_FILE,
    OPTION_ENCRYPT,
    OPTION_EVERY,
    OPTION_POLL
};

static const struct option long_options[] = {
    {"init", required_argument, NULL, OPTION_INIT},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"in-flight", required_argument, NULL, OPTION_IN_FLIGHT},
    {"every", required_argument, NULL, OPTION_EVERY},
    {"seconds", required_argument, NULL, OPTION_SECONDS},
    {"poll", required_argument, NULL, OPTION_POLL},
    {"busy", no_argument, NULL, OPTION_BUSY},
    {"loop", required_argument, NULL, OPTION_LOOP},
    {"threads", required_argument, NULL, OPTION_THREADS},
    {"clients", required_argument, NULL, OPTION_CLIENTS},
    {"processes", required_argument, NULL, OPTION_PROCESSES},
    {"push", no_argument, NULL, OPTION_PUSH},
    {"allocated", no_argument, NULL, OPTION_ALLOCATED},
    {"transfers", required_argument, NULL, OPTION_TRANSFERS},
    {"op", required_argument, NULL, OPTION_OP},
    {"with-limits", no_argument, NULL, OPTION_WITH_LIMITS},
    {"bind", required_argument, NULL, OPTION_BIND},
    {"target", required_argument, NULL, OPTION_TARGET},
    {"listen", no_argument, NULL, OPTION_LISTEN},
    {"kind", required_argument, NULL, OPTION_KIND},
    {"sizes", required_argument, NULL, OPTION_SIZES},
    {"depths", required_argument, NULL, OPTION_DEPTHS},
    {"output", required_argument, NULL, OPTION_OUTPUT},
    {"json", no_argument, NULL, OPTION_JSON},
    {"key-file", required_argument, NULL, OPTION_KEY_FILE},
    {"encrypt", no_argument, NULL, OPTION_ENCRYPT},
    {"address-fd", required_argument, NULL, OPTION_ADDRESS_FD},
    {"help", no_argument, NULL, TOOL_OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static const char *const mode_names[PERF_MODE_COUNT] = {
    [PERF_RPC] = "rpc",       [PERF_BULK] = "bulk", [PERF_NA] = "na",
    [PERF_LIMITS] = "limits", [PERF_IDLE] = "idle", [PERF_SWEEP] = "sweep",
};

static const char *const na_op_names[] = {
    [PERF_NA_MESSAGE] = "message",
    [PERF_NA_PUT] = "put",
    [PERF_NA_GET] = "get",
};

static const char *const loop_names[PERF_LOOP_COUNT] = {
    [PERF_LOOP_TRIGGER_ALL] = "trigger-all",
    [PERF_LOOP_TRIGGER_ONE] = "trigger-one",
    [PERF_LOOP_EVENT] = "event",
    [PERF_LOOP_REQUEST] = "request",
};

#define MODE(mode)   (1U << (mode))
#define MODES_TARGET (MODE(PERF_RPC) | MODE(PERF_BULK) | MODE(PERF_NA) | MODE(PERF_IDLE))

/* Options of some modes only. */
static const struct {
    int id;
    unsigned int modes;
} option_modes[] = {
    {OPTION_SIZE, MODES_TARGET | MODE(PERF_LIMITS)},
    {OPTION_IN_FLIGHT, MODES_TARGET},
    {OPTION_EVERY, MODE(PERF_RPC) | MODE(PERF_BULK)},
    {OPTION_POLL, MODE(PERF_RPC) | MODE(PERF_BULK) | MODE(PERF_IDLE)},
    {OPTION_LOOP, MODE(PERF_RPC) | MODE(PERF_BULK) | MODE(PERF_IDLE) | MODE(PERF_SWEEP)},
    {OPTION_PUSH, MODE(PERF_BULK)},
    {OPTION_ALLOCATED, MODE(PERF_BULK) | MODE(PERF_NA)},
    {OPTION_TRANSFERS, MODE(PERF_BULK)},
    {OPTION_OP, MODE(PERF_NA)},
    {OPTION_WITH_LIMITS, MODES_TARGET},
    {OPTION_TARGET, MODES_TARGET | MODE(PERF_SWEEP)},
    {OPTION_LISTEN, MODES_TARGET},
    {OPTION_KIND, MODE(PERF_SWEEP)},
    {OPTION_SIZES, MODE(PERF_SWEEP)},
    {OPTION_DEPTHS, MODE(PERF_SWEEP)},
    {OPTION_OUTPUT, MODE(PERF_SWEEP)},
};

/* Minimum length of a round of a measurement. */
#define ROUND_SECONDS_MIN 0.02

static void options_default(struct perf_options *options);
static bool options_mode(const char *name, struct perf_options *options);
static bool option_apply(void *settings, int id, const char *value);
static bool option_apply_number(struct perf_options *options, int id, const char *value);
static bool option_apply_plain(struct perf_options *options, int id, const char *value);
static bool option_bind(struct perf_options *options, const char *value);
static bool option_choice(const char *option, const char *value, const char *const names[],
                          unsigned int count, unsigned int *choice);
static bool options_finish(void *settings, int count, char *const arguments[]);
static bool options_fit_mode(const struct perf_options *options);
static bool options_check(struct perf_options *options);
static void options_fill_times(struct perf_options *options);
static void options_fill_sweep(struct perf_options *options);

bool perf_options_parse(int argc, char *argv[], struct perf_options *options, int *exit_code)
{
    static const struct tool_options command_line = {help_text, long_options, option_apply,
                                                     options_finish};

    options_default(options);
    return tool_options_parse(&command_line, argc, argv, options, exit_code);
}

bool perf_options_move_data(const struct perf_options *options)
{
    return options->mode == PERF_BULK || options->mode == PERF_LIMITS ||
           (options->mode == PERF_NA && options->na_op != PERF_NA_MESSAGE);
}

const char *perf_mode_name(enum perf_mode mode)
{
    return mode_names[mode];
}

const char *perf_na_op_name(enum perf_na_op op)
{
    return na_op_names[op];
}

const char *perf_loop_name(enum perf_loop_kind loop)
{
    return loop_names[loop];
}

static void options_default(struct perf_options *options)
{
    memset(options, 0, sizeof(*options));
    options->init = "na+sm";
    options->output = "hg_perf-sweep";
    options->in_flight = 1;
    options->transfers = 1;
    options->threads = 1;
    options->clients = 1;
    options->poll_us = HG_POLL_TIME_DEFAULT;
    options->address_fd = -1;
    options->bind[0] = options->bind[1] = -1;
}

static bool options_mode(const char *name, struct perf_options *options)
{
    for (unsigned int i = 0; i < PERF_MODE_COUNT; i++) {
        if (strcmp(name, mode_names[i]) == 0) {
            options->mode = (enum perf_mode) i;
            return true;
        }
    }
    return false;
}

static bool option_apply(void *settings, int id, const char *value)
{
    struct perf_options *options = settings;
    unsigned int choice;

    options->given |= 1U << (id - TOOL_OPTION_FIRST);
    switch (id) {
    case OPTION_OP:
        if (!option_choice("--op", value, na_op_names, 3, &choice))
            return false;
        options->na_op = (enum perf_na_op) choice;
        return true;
    case OPTION_LOOP:
        if (!option_choice("--loop", value, loop_names, PERF_LOOP_COUNT, &choice))
            return false;
        options->loop = (enum perf_loop_kind) choice;
        return true;
    case OPTION_BIND:
        return option_bind(options, value);
    case OPTION_KIND:
        if (!option_choice("--kind", value, mode_names, PERF_BULK + 1, &choice))
            return false;
        options->sweep_mode = (enum perf_mode) choice;
        return true;
    default:
        return option_apply_number(options, id, value);
    }
}

static bool option_apply_number(struct perf_options *options, int id, const char *value)
{
    switch (id) {
    case OPTION_SIZE:
        return tool_parse_size("--size", value, 1, PERF_SIZE_MAX, &options->size);
    case OPTION_IN_FLIGHT:
        return tool_parse_uint("--in-flight", value, 1, PERF_IN_FLIGHT_MAX, &options->in_flight);
    case OPTION_EVERY:
        return tool_parse_uint("--every", value, 1, 1000000, &options->every_us);
    case OPTION_POLL:
        return tool_parse_uint("--poll", value, 0, 1000000, &options->poll_us);
    case OPTION_TRANSFERS:
        return tool_parse_uint("--transfers", value, 1, PERF_TRANSFERS_MAX, &options->transfers);
    case OPTION_SECONDS:
        return tool_parse_seconds("--seconds", value, 0.01, 86400, &options->seconds);
    case OPTION_THREADS:
        return tool_parse_uint("--threads", value, 1, PERF_THREADS_MAX, &options->threads);
    case OPTION_CLIENTS:
        return tool_parse_uint("--clients", value, 1, PERF_CLIENTS_MAX, &options->clients);
    case OPTION_PROCESSES:
        return tool_parse_uint("--processes", value, 1, PERF_CLIENTS_MAX, &options->processes);
    case OPTION_SIZES:
        return tool_parse_size_list("--sizes", value, 1, PERF_SIZE_MAX, options->sweep_sizes,
                                    PERF_SWEEP_MAX, &options->sweep_size_count);
    case OPTION_DEPTHS:
        return tool_parse_size_list("--depths", value, 1, PERF_IN_FLIGHT_MAX, options->sweep_depths,
                                    PERF_SWEEP_MAX, &options->sweep_depth_count);
    default:
        return option_apply_plain(options, id, value);
    }
}

/* Options that take any value, or none. */
static bool option_apply_plain(struct perf_options *options, int id, const char *value)
{
    unsigned int fd;

    switch (id) {
    case OPTION_INIT:
        options->init = value;
        return true;
    case OPTION_TARGET:
        options->target = value;
        return true;
    case OPTION_OUTPUT:
        options->output = value;
        return true;
    case OPTION_KEY_FILE:
        options->key_file = value;
        return true;
    case OPTION_ENCRYPT:
        options->encrypt = true;
        return true;
    case OPTION_BUSY:
        options->busy = true;
        return true;
    case OPTION_PUSH:
        options->push = true;
        return true;
    case OPTION_ALLOCATED:
        options->allocated = true;
        return true;
    case OPTION_WITH_LIMITS:
        options->with_limits = true;
        return true;
    case OPTION_LISTEN:
        options->listen = true;
        return true;
    case OPTION_JSON:
        options->json = true;
        return true;
    default: /* used between hg_perf and its own target */
        if (!tool_parse_uint("--address-fd", value, 0, 1U << 20, &fd))
            return false;
        options->address_fd = (int) fd;
        return true;
    }
}

static bool option_bind(struct perf_options *options, const char *value)
{
    char rest;

    if (sscanf(value, "%d,%d%c", &options->bind[0], &options->bind[1], &rest) == 2 &&
        options->bind[0] >= 0 && options->bind[0] < 1024 && options->bind[1] >= 0 &&
        options->bind[1] < 1024)
        return true;
    tool_error("--bind: '%s' is not two cores such as 0,1", value);
    return false;
}

static bool option_choice(const char *option, const char *value, const char *const names[],
                          unsigned int count, unsigned int *choice)
{
    char list[128] = "";

    for (*choice = 0; *choice < count; (*choice)++) {
        const char *between = *choice == 0 ? "" : *choice + 1 == count ? " and " : ", ";
        size_t length = strlen(list);

        if (strcmp(value, names[*choice]) == 0)
            return true;
        (void) snprintf(list + length, sizeof(list) - length, "%s%s", between, names[*choice]);
    }
    tool_error("%s: '%s' is not possible; %s are", option, value, list);
    return false;
}

static bool options_finish(void *settings, int count, char *const arguments[])
{
    struct perf_options *options = settings;

    if (count == 0) {
        tool_error("say what to measure: rpc, bulk, na, idle, limits or sweep");
        return false;
    }
    if (!options_mode(arguments[0], options)) {
        tool_error("'%s' is unknown; rpc, bulk, na, idle, limits and sweep can be measured",
                   arguments[0]);
        return false;
    }
    if (count > 1) {
        tool_error("'%s' is one argument too many", arguments[1]);
        return false;
    }
    return options_fit_mode(options) && options_check(options);
}

static bool options_fit_mode(const struct perf_options *options)
{
    for (size_t i = 0; i < sizeof(option_modes) / sizeof(option_modes[0]); i++) {
        const struct option *option = long_options;

        if ((options->given & (1U << (option_modes[i].id - TOOL_OPTION_FIRST))) == 0 ||
            (option_modes[i].modes & MODE(options->mode)) != 0)
            continue;
        while (option->val != option_modes[i].id)
            option++;
        tool_error("--%s means nothing to %s%s", option->name, perf_mode_name(options->mode),
                   options->mode == PERF_SWEEP ? ", which takes --sizes and --depths" : "");
        return false;
    }
    return true;
}

/* Fills in the defaults that depend on the mode, and refuses options that contradict each other. */
static bool options_check(struct perf_options *options)
{
    enum perf_mode kind = options->mode == PERF_SWEEP ? options->sweep_mode : options->mode;

    if (options->size == 0)
        options->size = perf_options_move_data(options) ? UINT64_C(1) << 20 : PERF_RPC_SIZE_MIN;
    options_fill_times(options);
    if ((kind == PERF_RPC || kind == PERF_IDLE) &&
        (options->size < PERF_RPC_SIZE_MIN || options->size > PERF_RPC_SIZE_MAX)) {
        tool_error("--size: an RPC carries 8 bytes to 64M; larger data goes by bulk");
        return false;
    }
    if (kind == PERF_NA && options->threads > 1) {
        tool_error("--threads: na is measured with one thread");
        return false;
    }
    if (options->threads > 1 && options->clients > 1) {
        tool_error("--threads and --clients: only one of them can be more than 1");
        return false;
    }
    if ((options->given & (1U << (OPTION_LOOP - TOOL_OPTION_FIRST))) != 0 && options->clients > 1 &&
        options->loop != PERF_LOOP_EVENT) {
        tool_error("--loop: threads that serve several --clients wait for events");
        return false;
    }
    if (options->every_us > 0 && (options->in_flight > 1 || options->clients > 1)) {
        tool_error("--every: a thread that waits has one operation in flight, and one client");
        return false;
    }
    if (options->listen && options->target != NULL) {
        tool_error("--listen and --target: only one of them is possible");
        return false;
    }
    options_fill_sweep(options);
    return true;
}

/* Compared measurements are split into rounds, which alternate; other measurements have one
 * round. */
static void options_fill_times(struct perf_options *options)
{
    double rounds;

    if (options->seconds <= 0 && options->mode == PERF_LIMITS)
        options->seconds = 5;
    else if (options->seconds <= 0)
        options->seconds = options->mode == PERF_SWEEP ? 0.5 : 2;
    rounds = options->seconds / ROUND_SECONDS_MIN;
    options->rounds = rounds < 3 ? 3 : PERF_ROUNDS_MAX;
    if (rounds >= 3 && rounds < PERF_ROUNDS_MAX)
        options->rounds = (unsigned int) rounds;
    if (options->mode == PERF_IDLE || (options->mode != PERF_LIMITS && !options->with_limits))
        options->rounds = 1;
}

static void options_fill_sweep(struct perf_options *options)
{
    static const uint64_t rpc_sizes[] = {8, 64, 512, 4096, 32768, 262144};
    static const uint64_t bulk_sizes[] = {4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};
    static const uint64_t depths[] = {1, 4, 16, 32};
    bool bulk = options->sweep_mode == PERF_BULK;

    if (options->sweep_size_count == 0) {
        options->sweep_size_count = bulk ? 7 : 6;
        memcpy(options->sweep_sizes, bulk ? bulk_sizes : rpc_sizes,
               options->sweep_size_count * sizeof(options->sweep_sizes[0]));
    }
    if (options->sweep_depth_count == 0) {
        options->sweep_depth_count = 4;
        memcpy(options->sweep_depths, depths, sizeof(depths));
    }
}
