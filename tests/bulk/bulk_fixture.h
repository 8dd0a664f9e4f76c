/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two classes in one process, the origin and the target of bulk transfers, for the tests of this
 * folder.
 */
#ifndef TESTS_BULK_FIXTURE_H
#define TESTS_BULK_FIXTURE_H

#include "mercury.h"
#include "mercury_bulk.h"

#include "hg/test_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* One end. */
struct side {
    hg_class_t *hg_class;
    hg_context_t *context;
    hg_addr_t self;
};

struct pair {
    struct side origin;
    struct side target;
    hg_addr_t origin_addr; /* the origin, as the target sees it */
};

/* How a transfer ended. */
struct outcome {
    int count; /* of callbacks */
    hg_return_t ret;
    struct hg_cb_info info;
};

/* Memory in segments, and a descriptor of it. */
struct memory {
    uint32_t count;
    hg_size_t size;
    void **ptrs;
    hg_size_t *sizes;
    hg_bulk_t bulk;
};

/* Group setup and teardown; *state is a struct pair. */
int pair_open(void **state);
int pair_close(void **state);

/* Make progress on both ends once. */
void pair_progress(struct pair *pair);

/* Make progress until the outcome is there; fails the test after some seconds. */
void pair_wait(struct pair *pair, const struct outcome *outcome);

/* Callback of transfers; its argument is a struct outcome. */
hg_return_t outcome_set(const struct hg_cb_info *info);

/* Segments of these sizes, filled from a seed, described with these flags. */
void memory_make(struct memory *memory, hg_class_t *hg_class, uint32_t count,
                 const hg_size_t *sizes, uint8_t flags, unsigned int seed);
void memory_free(struct memory *memory);

/* Copies all segments to or from one flat buffer of memory->size bytes. */
void memory_get(const struct memory *memory, char *flat);
void memory_put(const struct memory *memory, const char *flat);

/* A descriptor as another class receives it. */
hg_bulk_t bulk_send(hg_bulk_t bulk, unsigned long flags, hg_class_t *to);

/* A transfer and what it returned; waits for its end if it started. */
hg_return_t transfer(struct pair *pair, hg_bulk_op_t op, hg_bulk_t origin, hg_size_t origin_offset,
                     hg_bulk_t local, hg_size_t local_offset, hg_size_t size);

#endif /* TESTS_BULK_FIXTURE_H */
