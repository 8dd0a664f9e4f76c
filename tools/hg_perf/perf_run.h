/* SPDX-License-Identifier: BSD-3-Clause */
/* One measurement: origin processes connect to a target, measure at the same time, in one or
 * several rounds, and return their results to the parent process through shared memory. */

#ifndef AMALGAM_PERF_RUN_H
#define AMALGAM_PERF_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/tool_histogram.h"
#include "hg_perf/perf_memory.h"
#include "hg_perf/perf_options.h"
#include "hg_perf/perf_series.h"
#include "hg_perf/perf_window.h"

/* Results of one origin process in a round; in shared memory. */
struct perf_process {
    atomic_uint arrived; /* last phase that it has finished */
    atomic_bool failed;
    bool node_local;               /* its transport reaches this machine only */
    uint64_t errors;               /* operations that completed with an error */
    double seconds;                /* measured time, the longest of all threads */
    double rate_per_s;             /* sum over all threads */
    struct tool_histogram latency; /* in nanoseconds, of each operation that counts */
    char message[256];             /* the first error */
};

/* Results of all origin processes together. */
struct perf_result {
    uint64_t count;
    uint64_t errors;
    double seconds; /* measured in all rounds; less than requested after a failure */
    struct perf_series rate_per_s;
    struct perf_series bandwidth_MBps;
    struct perf_series latency_p50_us;
    struct tool_histogram latency; /* of all rounds */
    double target_cpu_percent;     /* of one core; NAN if the target is not our child */
    unsigned int processes;        /* origin processes */
    bool node_local;               /* the transport reaches this machine only */
    bool memory_known;             /* the members below are valid */
    double peer_memory_bytes;      /* shared and target-private memory that a peer adds */
    double peer_shared_bytes;      /* of that: shared segments */
    double peer_target_bytes;      /* of that: private memory of the target */
    double origin_memory_bytes;    /* private memory of the peer itself, endpoint and pools */
};

/* Called before each round, while the origins sleep; false ends the measurement. */
struct perf_between {
    bool (*call)(void *data);
    void *data;
};

/* The origin's side of a mode, run in the origin processes. */
struct perf_origin_ops {
    /* Opens client_count endpoints, connects them and completes some operations; NULL on failure,
     * with the reason in process->message. */
    void *(*open)(const struct perf_options *options, const char *address,
                  unsigned int client_count, struct perf_process *process);
    /* Measures a round and adds the results to process. */
    void (*measure)(void *origin, struct perf_process *process);
    void (*close)(void *origin);
};

extern const struct perf_origin_ops perf_origin_hg_ops; /* rpc, bulk, idle */
extern const struct perf_origin_ops perf_origin_na_ops; /* na */

/* Runs a measurement against the target; target_pid is 0 if it is not our child; between may be
 * NULL. False after an error on stderr, or a signal. */
bool perf_run(const struct perf_options *options, const char *address, pid_t target_pid,
              const struct perf_between *between, struct perf_result *result);

/* Adds the results of one thread of an origin process in a round. */
void perf_process_add(struct perf_process *process, const struct perf_window *window);

/* Seconds before the measured time in which caches, pools and the scheduler settle. */
double perf_run_warm_up(double seconds);

#endif /* AMALGAM_PERF_RUN_H */
