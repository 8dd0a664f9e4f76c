/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of a run of hg_perf. */

#ifndef AMALGAM_PERF_OPTIONS_H
#define AMALGAM_PERF_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of values of --sizes and of --depths. */
#define PERF_SWEEP_MAX 32

/* Limits of the options; the target checks requests against them, too. */
#define PERF_SIZE_MAX      (UINT64_C(1) << 30)
#define PERF_RPC_SIZE_MAX  (UINT64_C(64) << 20)
#define PERF_RPC_SIZE_MIN  8U
#define PERF_IN_FLIGHT_MAX 4096U
#define PERF_TRANSFERS_MAX 65536U
#define PERF_CLIENTS_MAX   4096U
#define PERF_THREADS_MAX   64U

/* Maximum number of rounds of a measurement. */
#define PERF_ROUNDS_MAX 9U

enum perf_mode {
    PERF_RPC,
    PERF_BULK,
    PERF_NA,
    PERF_LIMITS,
    PERF_IDLE,
    PERF_SWEEP,
    PERF_MODE_COUNT
};

/* What `hg_perf na` measures. */
enum perf_na_op {
    PERF_NA_MESSAGE,
    PERF_NA_PUT,
    PERF_NA_GET
};

/* The loop in which a thread makes progress and runs callbacks. */
enum perf_loop_kind {
    PERF_LOOP_TRIGGER_ALL,
    PERF_LOOP_TRIGGER_ONE,
    PERF_LOOP_EVENT,
    PERF_LOOP_REQUEST,
    PERF_LOOP_COUNT
};

struct perf_options {
    enum perf_mode mode;
    enum perf_mode sweep_mode; /* mode of the points of a sweep: rpc or bulk */
    enum perf_na_op na_op;
    enum perf_loop_kind loop;
    const char *init;        /* init string as it was given */
    const char *origin_init; /* init string of the origins */
    const char *target;      /* address of a target that runs already, or NULL */
    const char *output;      /* sweep: prefix of the output files */
    uint64_t size;           /* payload bytes; 0: the mode's default */
    unsigned int every_us;   /* interval between operation starts; 0: none */
    unsigned int poll_us;    /* polling time before sleep, HG_POLL_TIME_DEFAULT: not set */
    unsigned int in_flight;  /* operations that each thread keeps in flight */
    unsigned int transfers;  /* bulk: number of transfers per RPC */
    unsigned int threads;    /* origin threads of one client, and target threads */
    unsigned int clients;    /* origin endpoints */
    unsigned int processes;  /* origin processes; 0: chosen from clients */
    double seconds;          /* measured time of all rounds */
    unsigned int rounds;     /* they alternate with rounds of the limits */
    uint32_t given;          /* one bit for each option that was given */
    const char *key_file;    /* NULL: no file */
    const char *key;         /* NULL: none */
    bool encrypt;            /* encrypt with the key */
    bool busy;               /* neither side ever sleeps */
    bool push;               /* bulk: the target writes instead of reading */
    bool allocated;          /* the library allocates the passive side's memory */
    bool json;
    bool listen;      /* be the target */
    bool with_limits; /* measure the machine's limits in the same run */
    int address_fd;   /* target: where to report the address; -1: stdout */
    int bind[2];      /* cores for origins and target; -1: the scheduler chooses */
    uint64_t sweep_sizes[PERF_SWEEP_MAX];
    size_t sweep_size_count;
    uint64_t sweep_depths[PERF_SWEEP_MAX];
    size_t sweep_depth_count;
};

/* Reads the command line. Returns true when there is something to do; otherwise *exit_code is set,
 * and help or an error has been printed. */
bool perf_options_parse(int argc, char *argv[], struct perf_options *options, int *exit_code);

/* True if the measurement copies data between buffers rather than sends messages. */
bool perf_options_move_data(const struct perf_options *options);

/* The name of a mode as written on the command line. */
const char *perf_mode_name(enum perf_mode mode);

/* The name of what `hg_perf na` measures. */
const char *perf_na_op_name(enum perf_na_op op);

/* The name of a loop as written on the command line. */
const char *perf_loop_name(enum perf_loop_kind loop);

#endif /* AMALGAM_PERF_OPTIONS_H */
