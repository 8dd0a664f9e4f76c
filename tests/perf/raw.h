/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a fabric's library alone reaches between two processes of this machine, as JSON: the measure
 * for what a plugin makes of the same library. Here is what is measured, the same for all of them;
 * a program adds how its library does it.
 *
 * Bulk is to be compared with as many in flight: a line of --window N with
 *   hg_perf na --op get --in-flight N   the same thing, a get and nothing else;
 *   hg_perf bulk --in-flight N          pulls, each of which contains the RPC that asks for it:
 *                                       with one in flight its round trip is added to the transfer,
 *                                       with more it costs processor time that both sides need.
 * Both sides poll (--busy) and are bound alike (--bind 0,1). What counts is the better of reads and
 * of the stream, in the same run: what the memory gives differs more from one minute to another.
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
    const char *provider;              /* or transports */
    const char *device;                /* or address; NULL: the program's choice */
    uint64_t message;                  /* bytes of a ping */
    uint32_t windows[RAW_WINDOWS_MAX]; /* bulk requests in flight, measured one after another */
    uint32_t window_count;
    double seconds;    /* for each measurement */
    int processors[2]; /* of origin and target; negative: any */
    bool variant;      /* what the program's usage line says of --variant */
};

/* One of the two processes; begins the program's own. */
struct raw_side {
    const struct raw_options *options;
    uint8_t *buffer; /* RAW_WINDOW_MAX * RAW_BUFFER_SIZE, touched as far as used */
    int socket;      /* to the other process, for the start of each measurement */
    bool is_origin;
    uint64_t done; /* sends, receives, puts, gets that ended */
};

enum raw_direction {
    RAW_READ,
    RAW_WRITE
};

/* What a program adds. None of it returns after a failure: there is nothing to measure then. */
struct raw_library {
    const char *provider; /* that is measured unless another is named */
    const char *variant;  /* of the measurement, for the usage line */
    uint64_t side_size;

    void (*open)(struct raw_side *side); /* side->buffer is there */
    void (*connect)(struct raw_side *side);
    void (*close)(struct raw_side *side);
    void (*poll)(struct raw_side *side); /* adds to side->done */

    /* `slot` is less than RAW_WINDOW_MAX and not in use by another of its kind. */
    void (*send)(struct raw_side *side, uint64_t offset, uint64_t size, uint32_t slot);
    void (*receive)(struct raw_side *side, uint64_t offset, uint64_t size, uint32_t slot);

    /* A write counts when it is in the other's memory. NULL: the library has none. */
    void (*rma)(struct raw_side *side, enum raw_direction direction, uint64_t offset, uint64_t size,
                uint32_t slot);
};

/* The whole program. */
int raw_main(int argc, char **argv, const struct raw_library *library);

/* What both sides say, each to the other. */
void raw_exchange(struct raw_side *side, const void *own, size_t own_size, void *other,
                  size_t other_size);

/* Ends the program with errno's text unless it is good. */
void raw_check(bool is_good, const char *what);

#endif /* PERF_RAW_H */
