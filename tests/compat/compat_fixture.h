/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An origin and a target in one process, for tests of behaviour that Mercury's API promises. This
 * folder uses the public API alone, so that the same sources can be compiled against Mercury
 * itself: compile each test with compat_fixture.c and with the folder `tests` as include path.
 */
#ifndef TESTS_COMPAT_FIXTURE_H
#define TESTS_COMPAT_FIXTURE_H

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_proc.h"
#include "mercury_proc_bulk.h"
#include "mercury_proc_string.h"

#include "hg/test_transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* RPCs that both sides have; the handler of the first two is compat.handler. */
enum {
    RPC_CALL = 11,   /* a number and a string; responds with a number */
    RPC_ONEWAY = 12, /* the same input, without a response */
    RPC_UNKNOWN = 13 /* registered at the origin only */
};

struct call_in {
    int32_t number;
    hg_string_t text;
};

struct call_out {
    int32_t number;
};

hg_return_t proc_call_in(hg_proc_t proc, void *data);
hg_return_t proc_call_out(hg_proc_t proc, void *data);

struct side {
    hg_class_t *hg_class;
    hg_context_t *context; /* NULL if the test destroyed it */
};

struct compat {
    struct side origin;
    struct side target;
    hg_addr_t addr; /* of the target, as an address of the origin's class */
    hg_return_t (*handler)(struct compat *compat, hg_handle_t handle);
    hg_handle_t kept;    /* for a handler that leaves the handle to the test */
    int handled;         /* handlers that ran */
    int forwarded;       /* forward callbacks that ran */
    int responded;       /* respond callbacks that ran */
    int other;           /* for callbacks of single tests */
    hg_return_t ret;     /* of the last forward callback */
    int32_t refs;        /* references when that callback ran */
    int32_t sent_refs;   /* references when the last respond callback ran */
    int32_t number;      /* of the last output, -1 if there was none */
    bool destroy_handle; /* whether the forward callback destroys its handle */
};

/* cmocka's setup and teardown; *state is a struct compat. */
int compat_setup(void **state);
int compat_teardown(void **state);

/* Parts of the setup and teardown, for tests that need another order. */
void side_open(struct side *side, struct compat *compat, uint8_t listen);
void side_register(const struct side *side, struct compat *compat);
void side_close(const struct side *side);
hg_addr_t side_lookup(const struct side *from, const struct side *to);

/* Progress and trigger once on both sides. */
void compat_progress(const struct compat *compat);

/* Progress until a counter reaches a value; fails the test after some seconds. */
void compat_wait(const struct compat *compat, const int *counter, int value);

/* Progress for some milliseconds. */
void compat_run(const struct compat *compat, int ms);

/* Create a handle for an RPC to the target. */
hg_handle_t compat_create(const struct compat *compat, hg_id_t id);

/* Forward the number 3 and the string "three". */
void compat_forward(struct compat *compat, hg_handle_t handle);

/* Forward on a new handle, and return the handle after the callback ran. */
hg_handle_t compat_call(struct compat *compat, hg_id_t id);

/* Callbacks whose argument is a struct compat. */
hg_return_t compat_forwarded(const struct hg_cb_info *info);
hg_return_t compat_responded(const struct hg_cb_info *info);

/*
 * Handlers: compat_answer() responds with the number 4 and destroys the handle, compat_keep() keeps
 * the handle in compat->kept.
 */
hg_return_t compat_answer(struct compat *compat, hg_handle_t handle);
hg_return_t compat_keep(struct compat *compat, hg_handle_t handle);

/* Respond with the number 4. */
hg_return_t compat_respond(struct compat *compat, hg_handle_t handle);

#endif /* TESTS_COMPAT_FIXTURE_H */
