/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two classes in one process, the origin and the target of RPCs, for the tests of this folder.
 */
#ifndef TESTS_HG_FIXTURE_H
#define TESTS_HG_FIXTURE_H

#include "mercury.h"
#include "mercury_ext.h"
#include "mercury_proc.h"

#include "test_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* RPCs that every class of a pair has. */
enum {
    RPC_NULL = 1,   /* no input, no output; responds at once */
    RPC_ECHO = 2,   /* responds with the blob it received */
    RPC_ONEWAY = 3, /* a blob; no response */
    RPC_HOLD = 4,   /* a blob; the handle is kept in held, without a response */
    RPC_FAIL = 5,   /* the handler destroys its handle and returns HG_FAULT */
    RPC_FILL = 6,   /* a size; responds with a blob of that size */
    RPC_MANUAL = 7  /* no procs: the reserved bytes are the payload */
};

/* Bytes with a length, encoded as a 32-bit length and the bytes. */
struct blob {
    uint32_t size;
    uint8_t *data;
};

hg_return_t proc_blob(hg_proc_t proc, void *data);
hg_return_t proc_size(hg_proc_t proc, void *data);
void blob_make(struct blob *blob, uint32_t size, uint8_t seed);
void blob_check(const struct blob *blob, uint32_t size, uint8_t seed);

/* Bytes that the raw encoding adds to those of a blob. */
#define BLOB_OVERHEAD ((hg_size_t) 4)

struct side {
    hg_class_t *hg_class;
    hg_context_t *context;
    atomic_int handled;     /* handlers that ran */
    atomic_int responded;   /* respond callbacks that ran */
    atomic_int respond_ret; /* result of the last one */
    struct blob last;       /* input of the last RPC_ONEWAY */
    hg_handle_t held[64];
    int held_count;
    atomic_uint context_id; /* context id that the last handler of RPC_NULL saw */
};

struct pair {
    struct side origin;
    struct side target;
    hg_addr_t addr; /* of the target, as an address of the origin's class */
};

/* How an operation ended. */
struct outcome {
    atomic_int count; /* callbacks that ran */
    hg_return_t ret;
    hg_cb_type_t type;
};

/* A monotonic clock. */
uint64_t now_ms(void);

/* Group setup and teardown with default options; *state is a struct pair. */
int pair_setup(void **state);
int pair_teardown(void **state);

/* The same with options, NULL for the defaults. */
void pair_open(struct pair *pair, const struct hg_init_info *info);
void pair_close(struct pair *pair);

void side_open(struct side *side, const struct hg_init_info *info);
void side_register(struct side *side);
void side_close(struct side *side);

/* An address of `to` in the class of `from`. */
hg_addr_t side_lookup(const struct side *from, const struct side *to);

/* Progress and trigger one side, or both, without waiting. */
void side_progress(const struct side *side);
void pair_progress(const struct pair *pair);

/* A limit for everything that should happen at all; generous, because the machine may be busy. */
#define WAIT_MS 60000u

/* Progress until *counter reaches a value; fails the test after WAIT_MS. */
void pair_wait_for(const struct pair *pair, const atomic_int *counter, int value);

/* Progress until a side holds `count` handles or more; fails the test after WAIT_MS. */
void pair_wait_held(const struct pair *pair, const struct side *side, int count);

/*
 * Progress until the condition holds, or for WAIT_MS. The caller asserts the condition afterwards.
 */
#define pair_until(pair, condition)                                                \
    for (uint64_t end_ms = now_ms() + WAIT_MS; !(condition) && now_ms() < end_ms;) \
    pair_progress(pair)

/* A size that fits neither an input nor an output message of the transport. */
uint32_t pair_large(const struct pair *pair);

/* Progress for `ms` milliseconds. */
void pair_run(const struct pair *pair, unsigned int ms);

hg_handle_t pair_create(const struct pair *pair, hg_id_t id);

/* Callback whose argument is a struct outcome. */
hg_return_t outcome_set(const struct hg_cb_info *info);

/* Forward and progress until the callback ran; returns the result. */
hg_return_t pair_call(const struct pair *pair, hg_handle_t handle, void *in);

/* Forward a blob to RPC_ECHO on a new handle and check the output. */
void pair_echo(const struct pair *pair, uint32_t size);

/* Respond to the handle that was held last, and destroy it. */
void side_respond_held(struct side *side, void *out);

/* Respond to all held handles with a blob of `size` bytes. */
void side_respond_all(struct side *side, uint32_t size);

/*
 * Respond to all handles that the target holds. Requests of cancelled RPCs may arrive late; they
 * are waited for.
 */
void pair_respond_all(struct pair *pair);

struct hg_diag_counters side_counters(const struct side *side);
struct hg_ext_counters side_ext_counters(const struct side *side);

#endif /* TESTS_HG_FIXTURE_H */
