/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures what a fabric's library reaches between two processes of this machine without Amalgam,
 * and prints JSON: the reference for a plugin over the same library. The measurements are the same
 * for all libraries; each program adds the functions of its library.
 *
 * Compare bulk with as many requests in flight. A line of --window N corresponds to
 *   hg_perf na --op get --in-flight N   also a get and nothing else;
 *   hg_perf bulk --in-flight N          pulls, each of which includes the RPC that asks for it.
 * With one in flight, that RPC's round trip adds to the transfer; with more, the RPCs take
 * processor time that both sides need.
 * Both sides poll (--busy) and are bound alike (--bind 0,1). Use the better of reads and of the
 * stream, from the same run, because memory bandwidth varies more from one minute to the next.
 */

#ifndef PERF_RAW_H
#define PERF_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RAW_BUFFER_SIZE (UINT64_C(16) << 20)
#define RAW_WINDOW_MAX  64u
#define RAW_WINDOWS_MAX 8u

struct raw_options {
    const char *provider;              /* of libfabric, or UCX's transports, or TCP's address */
    const char *device;                /* NULL: the program's default */
    uint64_t message;                  /* bytes of a ping */
    uint32_t windows[RAW_WINDOWS_MAX]; /* bulk requests in flight, one measurement for each */
    uint32_t window_count;
    double seconds;    /* of each measurement */
    int processors[2]; /* of origin and target; negative: any */
    bool variant;      /* --variant, which the program's usage line explains */
};

/* One of the two processes; the program's own struct begins with this one. */
struct raw_side {
    const struct raw_options *options;
    uint8_t *buffer; /* RAW_WINDOW_MAX buffers of RAW_BUFFER_SIZE; those in use are touched */
    int socket;      /* to the other process, to start each measurement together */
    bool is_origin;
    uint64_t done; /* sends, receives, puts and gets that have completed */
};

enum raw_direction {
    RAW_READ,
    RAW_WRITE
};

/*
 * The functions of a library. They end the program after a failure, because there is nothing to
 * measure then.
 */
struct raw_library {
    const char *provider; /* the default for --provider */
    const char *variant;  /* explanation of --variant, for the usage line */
    uint64_t side_size;

    void (*open)(struct raw_side *side); /* side->buffer exists already */
    void (*connect)(struct raw_side *side);
    void (*close)(struct raw_side *side);
    void (*poll)(struct raw_side *side); /* adds to side->done */

    /* `slot` is less than RAW_WINDOW_MAX, and no other operation of this kind uses the slot. */
    void (*send)(struct raw_side *side, uint64_t offset, uint64_t size, uint32_t slot);
    void (*receive)(struct raw_side *side, uint64_t offset, uint64_t size, uint32_t slot);

    /* A write completes when the data are in the peer's memory. NULL: the library has no RMA. */
    void (*rma)(struct raw_side *side, enum raw_direction direction, uint64_t offset, uint64_t size,
                uint32_t slot);
};

/* The main function of each program. */
int raw_main(int argc, char **argv, const struct raw_library *library);

/* Send `own` to the other side and receive the other side's data. */
void raw_exchange(struct raw_side *side, const void *own, size_t own_size, void *other,
                  size_t other_size);

/* End the program with the text of errno if a check fails. */
void raw_check(bool is_good, const char *what);

#endif /* PERF_RAW_H */
