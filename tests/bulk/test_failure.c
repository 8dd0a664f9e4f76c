/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transfers whose pieces fail, are refused or are cancelled, and allocations that fail. The linker
 * wraps functions of NA, malloc(), calloc() and aligned_alloc().
 */
#include "bulk_fixture.h"

#include "bulk/bulk_internal.h"
#include "mercury_ext.h"
#include "na_ext.h"

#include <unistd.h>

#define POSTED_MAX 1024

/* An operation of the fake NA, which completes only when the test says so. */
struct posted {
    na_cb_t callback;
    void *arg;
    na_op_id_t *op;
    size_t size;
    bool is_canceled;
    bool is_done;
};

static struct {
    bool is_on;
    size_t max_segments;   /* 0: as the transport has it */
    uint64_t max_rma_size; /* likewise */
    unsigned int calls;
    unsigned int fail_at; /* number of the call that fails, from 1; 0: none */
    na_return_t fail_ret;
    unsigned int refusals; /* how many calls, from refuse_at on, return NA_AGAIN */
    unsigned int refuse_at;
    hg_context_t *context;  /* the context of the transfer to cancel */
    hg_op_id_t *cancel;     /* if set, this transfer is cancelled as by another thread, */
    unsigned int cancel_at; /* during this call of NA_Get(), or of NA_Addr_dup() if 0 */
    struct posted posted[POSTED_MAX];
    unsigned int posted_count;
    unsigned int outstanding;
    unsigned int most_outstanding;
} fake;

/* Allocations are counted, and one of them may fail. */
static struct {
    unsigned long count;
    unsigned long fail_at; /* 0: never */
} memory_use;

na_return_t __real_NA_Get(na_class_t *, na_context_t *, na_cb_t, void *, na_mem_handle_t *,
                          na_offset_t, na_mem_handle_t *, na_offset_t, size_t, na_addr_t *, uint8_t,
                          na_op_id_t *);
na_return_t __wrap_NA_Get(na_class_t *, na_context_t *, na_cb_t, void *, na_mem_handle_t *,
                          na_offset_t, na_mem_handle_t *, na_offset_t, size_t, na_addr_t *, uint8_t,
                          na_op_id_t *);
na_return_t __real_NA_Addr_dup(na_class_t *, na_addr_t *, na_addr_t **);
na_return_t __wrap_NA_Addr_dup(na_class_t *, na_addr_t *, na_addr_t **);
na_return_t __real_NA_Cancel(na_class_t *, na_context_t *, na_op_id_t *);
na_return_t __wrap_NA_Cancel(na_class_t *, na_context_t *, na_op_id_t *);
bool __real_NA_Op_set_callback(na_class_t *, na_context_t *, na_op_id_t *, na_cb_t, void *);
bool __wrap_NA_Op_set_callback(na_class_t *, na_context_t *, na_op_id_t *, na_cb_t, void *);
uint64_t __real_NA_Class_get_max_rma_size(const na_class_t *);
uint64_t __wrap_NA_Class_get_max_rma_size(const na_class_t *);
size_t __real_NA_Mem_handle_get_max_segments(const na_class_t *);
size_t __wrap_NA_Mem_handle_get_max_segments(const na_class_t *);
void *__real_malloc(size_t);
void *__wrap_malloc(size_t);
void *__real_calloc(size_t, size_t);
void *__wrap_calloc(size_t, size_t);
void *__real_aligned_alloc(size_t, size_t);
void *__wrap_aligned_alloc(size_t, size_t);

static void cancel_now(unsigned int call)
{
    if (fake.cancel == NULL || fake.cancel_at != call)
        return;
    assert_int_equal(HG_Bulk_cancel(*fake.cancel), HG_SUCCESS);
    assert_int_equal(HG_Trigger(fake.context, 0, 10, NULL), HG_TIMEOUT);
}

na_return_t __wrap_NA_Addr_dup(na_class_t *na_class, na_addr_t *addr, na_addr_t **new_addr_p)
{
    cancel_now(0);
    return __real_NA_Addr_dup(na_class, addr, new_addr_p);
}

na_return_t __wrap_NA_Get(na_class_t *na_class, na_context_t *context, na_cb_t callback, void *arg,
                          na_mem_handle_t *local, na_offset_t local_offset, na_mem_handle_t *remote,
                          na_offset_t remote_offset, size_t size, na_addr_t *addr, uint8_t id,
                          na_op_id_t *op)
{
    struct posted *posted = &fake.posted[fake.posted_count];

    fake.calls++;
    if (!fake.is_on)
        return __real_NA_Get(na_class, context, callback, arg, local, local_offset, remote,
                             remote_offset, size, addr, id, op);
    cancel_now(fake.calls);
    if (fake.calls == fake.fail_at)
        return fake.fail_ret;
    if (fake.calls >= fake.refuse_at && fake.refusals > 0) {
        fake.refusals--;
        return NA_AGAIN;
    }
    *posted = (struct posted){callback, arg, op, size, false, false};
    fake.posted_count++;
    fake.outstanding++;
    if (fake.outstanding > fake.most_outstanding)
        fake.most_outstanding = fake.outstanding;
    return NA_SUCCESS;
}

na_return_t __wrap_NA_Cancel(na_class_t *na_class, na_context_t *context, na_op_id_t *op)
{
    if (!fake.is_on)
        return __real_NA_Cancel(na_class, context, op);
    for (unsigned int i = 0; i < fake.posted_count; i++)
        if (fake.posted[i].op == op && !fake.posted[i].is_done)
            fake.posted[i].is_canceled = true;
    return NA_SUCCESS;
}

bool __wrap_NA_Op_set_callback(na_class_t *na_class, na_context_t *context, na_op_id_t *op,
                               na_cb_t callback, void *arg)
{
    if (!fake.is_on)
        return __real_NA_Op_set_callback(na_class, context, op, callback, arg);
    for (unsigned int i = 0; i < fake.posted_count; i++) {
        if (fake.posted[i].op != op || fake.posted[i].is_done)
            continue;
        fake.posted[i].callback = callback;
        fake.posted[i].arg = arg;
        return true;
    }
    return false;
}

size_t __wrap_NA_Mem_handle_get_max_segments(const na_class_t *na_class)
{
    return fake.max_segments > 0 ? fake.max_segments
                                 : __real_NA_Mem_handle_get_max_segments(na_class);
}

uint64_t __wrap_NA_Class_get_max_rma_size(const na_class_t *na_class)
{
    return fake.max_rma_size > 0 ? fake.max_rma_size : __real_NA_Class_get_max_rma_size(na_class);
}

static bool memory_fails(void)
{
    return __atomic_add_fetch(&memory_use.count, 1, __ATOMIC_RELAXED) == memory_use.fail_at;
}

void *__wrap_malloc(size_t size)
{
    return memory_fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return memory_fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return memory_fails() ? NULL : __real_aligned_alloc(alignment, size);
}

/* Completes a posted operation as NA_Trigger() would. */
static void fake_complete(unsigned int i, na_return_t ret)
{
    struct na_cb_info info;

    assert_false(fake.posted[i].is_done);
    memset(&info, 0, sizeof(info));
    info.arg = fake.posted[i].arg;
    info.type = NA_CB_GET;
    info.ret = ret;
    fake.posted[i].is_done = true;
    fake.outstanding--;
    fake.posted[i].callback(&info);
}

/* Completes all outstanding operations: as cancelled if they were cancelled, else with success. */
static void fake_complete_all(void)
{
    for (unsigned int i = 0; i < fake.posted_count; i++)
        if (!fake.posted[i].is_done)
            fake_complete(i, fake.posted[i].is_canceled ? NA_CANCELED : NA_SUCCESS);
}

/* A pull of 100 segments, each of which is a piece of its own. */
struct scene {
    struct pair *pair;
    struct memory origin;
    struct memory local;
    hg_bulk_t received;
    hg_op_id_t op_id;
    struct outcome outcome;
    struct hg_ext_counters before;
};

#define PIECE_COUNT 100
#define PIECE_SIZE  10

static struct hg_ext_counters scene_counters(const struct scene *scene)
{
    struct hg_ext_counters counters;

    assert_int_equal(
        HG_Class_get_ext_counters(scene->pair->target.hg_class, &counters, sizeof(counters)),
        HG_SUCCESS);
    return counters;
}

/* The class counted the transfer under its result. */
static void scene_check_counters(const struct scene *scene)
{
    const struct hg_ext_counters before = scene->before, after = scene_counters(scene);

    switch (scene->outcome.ret) {
    case HG_SUCCESS:
        assert_true(after.bulk_bytes >= before.bulk_bytes + PIECE_COUNT * PIECE_SIZE);
        break;
    case HG_CANCELED:
        assert_true(after.bulk_canceled_count > before.bulk_canceled_count);
        assert_int_equal(after.bulk_error_count, before.bulk_error_count);
        break;
    case HG_TIMEOUT:
        assert_true(after.bulk_timeout_count > before.bulk_timeout_count);
        assert_int_equal(after.bulk_error_count, before.bulk_error_count);
        break;
    default:
        assert_true(after.bulk_error_count > before.bulk_error_count);
        assert_int_equal(after.bulk_canceled_count, before.bulk_canceled_count);
    }
}

static void scene_open(struct scene *scene, struct pair *pair)
{
    hg_size_t sizes[PIECE_COUNT];

    for (int i = 0; i < PIECE_COUNT; i++)
        sizes[i] = PIECE_SIZE;
    memset(scene, 0, sizeof(*scene));
    memset(&fake, 0, sizeof(fake));
    scene->pair = pair;
    scene->before = scene_counters(scene);
    fake.max_segments = 1;
    memory_make(&scene->origin, pair->origin.hg_class, PIECE_COUNT, sizes, HG_BULK_READWRITE, 1);
    memory_make(&scene->local, pair->target.hg_class, PIECE_COUNT, sizes, HG_BULK_READWRITE, 2);
    scene->received = bulk_send(scene->origin.bulk, 0, pair->target.hg_class);
    fake.max_segments = 0;
    fake.is_on = true;
}

static hg_return_t scene_start(struct scene *scene)
{
    return HG_Bulk_transfer(scene->pair->target.context, outcome_set, &scene->outcome, HG_BULK_PULL,
                            scene->pair->origin_addr, scene->received, 0, scene->local.bulk, 0,
                            PIECE_COUNT * PIECE_SIZE, &scene->op_id);
}

/* No operation is outstanding, and the callback ran `callbacks` times. */
static void scene_close(struct scene *scene, int callbacks)
{
    for (int i = 0; i < 5; i++)
        pair_progress(scene->pair);
    assert_int_equal(fake.outstanding, 0);
    assert_int_equal(scene->outcome.count, callbacks);
    if (callbacks > 0)
        scene_check_counters(scene);
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(HG_Bulk_free(scene->received), HG_SUCCESS);
    memory_free(&scene->origin);
    memory_free(&scene->local);
}

static void pieces_that_run_are_bounded(void **state)
{
    struct scene scene;

    scene_open(&scene, *state);
    assert_int_equal(scene_start(&scene), HG_SUCCESS);
    assert_int_equal(fake.posted_count, HG_BULK_PIECES_MAX);
    /* The pieces complete in the reverse order of their posting. */
    while (fake.outstanding > 0) {
        unsigned int i = fake.posted_count - 1;

        while (fake.posted[i].is_done)
            i--;
        assert_int_equal(fake.posted[i].size, PIECE_SIZE);
        assert_int_equal(scene.outcome.count, 0);
        fake_complete(i, NA_SUCCESS);
    }
    assert_int_equal(fake.posted_count, PIECE_COUNT);
    assert_int_equal(fake.most_outstanding, HG_BULK_PIECES_MAX);
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_SUCCESS);
    scene_close(&scene, 1);
}

static void contiguous_memory_is_one_piece(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {32 * 1024 * 1024};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;
    uint64_t max;

    memset(&fake, 0, sizeof(fake));
    memory_make(&origin, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
    memory_make(&local, pair->target.hg_class, 1, sizes, HG_BULK_WRITE_ONLY, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 1, local.bulk, 2, sizes[0] - 2),
                     HG_SUCCESS);
    /* The transport's limit for a single get may still split the transfer. */
    max = NA_Class_get_max_rma_size(HG_Class_get_na(pair->target.hg_class));
    assert_int_equal(fake.calls, max == 0 ? 1 : (sizes[0] - 2 - 1) / max + 1);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

static void pieces_respect_the_limit_of_the_transport(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[1] = {100000};
    struct memory origin;
    struct memory local;
    hg_bulk_t received;

    memset(&fake, 0, sizeof(fake));
    fake.max_rma_size = 999;
    memory_make(&origin, pair->origin.hg_class, 1, sizes, HG_BULK_READ_ONLY, 1);
    memory_make(&local, pair->target.hg_class, 1, sizes, HG_BULK_WRITE_ONLY, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    assert_int_equal(transfer(pair, HG_BULK_PULL, received, 0, local.bulk, 0, sizes[0]),
                     HG_SUCCESS);
    assert_int_equal(fake.calls, 101);
    assert_memory_equal(origin.ptrs[0], local.ptrs[0], (size_t) sizes[0]);
    fake.max_rma_size = 0;
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

static void piece_that_fails_stops_the_others(void **state)
{
    for (unsigned int victim = 0; victim < PIECE_COUNT; victim += 7) {
        struct scene scene;

        scene_open(&scene, *state);
        assert_int_equal(scene_start(&scene), HG_SUCCESS);
        for (unsigned int i = 0; i < victim; i++)
            fake_complete(i, NA_SUCCESS);
        fake_complete(victim, NA_IO_ERROR);
        pair_progress(scene.pair);
        /*
         * While other pieces are outstanding, the callback does not run; the pieces are cancelled.
         */
        if (fake.outstanding > 0)
            assert_int_equal(scene.outcome.count, 0);
        for (unsigned int i = 0; i < fake.posted_count; i++)
            assert_true(fake.posted[i].is_done || fake.posted[i].is_canceled);
        assert_in_range(fake.posted_count, victim, victim + HG_BULK_PIECES_MAX);
        fake_complete_all();
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_IO_ERROR);
        scene_close(&scene, 1);
    }
}

static void piece_that_is_not_accepted_is_an_error_once(void **state)
{
    for (unsigned int victim = 1; victim <= PIECE_COUNT; victim += 3) {
        struct scene scene;
        hg_return_t ret;

        scene_open(&scene, *state);
        fake.fail_at = victim;
        fake.fail_ret = NA_HOSTUNREACH;
        ret = scene_start(&scene);
        if (victim == 1) {
            assert_int_equal(ret, HG_HOSTUNREACH);
            scene_close(&scene, 0);
            continue;
        }
        assert_int_equal(ret, HG_SUCCESS);
        fake_complete_all();
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_HOSTUNREACH);
        scene_close(&scene, 1);
    }
}

static void refused_pieces_are_tried_again(void **state)
{
    static const unsigned int refusals[4] = {1, 2, 5, 20};

    for (unsigned int victim = 1; victim <= PIECE_COUNT; victim += 9) {
        for (int i = 0; i < 4; i++) {
            struct scene scene;

            scene_open(&scene, *state);
            fake.refuse_at = victim;
            fake.refusals = refusals[i];
            assert_int_equal(scene_start(&scene), HG_SUCCESS);
            for (int round = 0; round < 200 && scene.outcome.count == 0; round++) {
                fake_complete_all();
                pair_progress(scene.pair);
            }
            assert_int_equal(fake.refusals, 0);
            assert_int_equal(fake.posted_count, PIECE_COUNT);
            assert_int_equal(scene.outcome.ret, HG_SUCCESS);
            scene_close(&scene, 1);
        }
    }
}

static void cancel_ends_once_nothing_runs(void **state)
{
    for (unsigned int done = 0; done < PIECE_COUNT; done += 11) {
        struct scene scene;

        scene_open(&scene, *state);
        assert_int_equal(scene_start(&scene), HG_SUCCESS);
        for (unsigned int i = 0; i < done; i++)
            fake_complete(i, NA_SUCCESS);
        assert_int_equal(HG_Bulk_cancel(scene.op_id), HG_SUCCESS);
        assert_int_equal(HG_Bulk_cancel(scene.op_id), HG_SUCCESS);
        pair_progress(scene.pair);
        assert_int_equal(scene.outcome.count, 0);
        /* A cancelled piece may still succeed. */
        for (unsigned int i = done; i < fake.posted_count; i++)
            fake_complete(i, i % 2 == 0 ? NA_SUCCESS : NA_CANCELED);
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_CANCELED);
        scene_close(&scene, 1);
    }
}

static void cancel_reaches_what_was_refused(void **state)
{
    for (unsigned int victim = 1; victim <= HG_BULK_PIECES_MAX; victim += 5) {
        struct scene scene;

        scene_open(&scene, *state);
        fake.refuse_at = victim;
        fake.refusals = 1000000;
        assert_int_equal(scene_start(&scene), HG_SUCCESS);
        pair_progress(scene.pair);
        assert_int_equal(scene.outcome.count, 0);
        assert_int_equal(HG_Bulk_cancel(scene.op_id), HG_SUCCESS);
        fake_complete_all();
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_CANCELED);
        scene_close(&scene, 1);
    }
}

static void cancel_after_the_end_changes_nothing(void **state)
{
    struct scene scene;

    scene_open(&scene, *state);
    assert_int_equal(scene_start(&scene), HG_SUCCESS);
    while (fake.outstanding > 0)
        fake_complete_all();
    assert_int_equal(HG_Bulk_cancel(scene.op_id), HG_SUCCESS);
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_SUCCESS);
    scene_close(&scene, 1);
}

/* A cancel by another thread may come before any piece is posted. */
static void cancel_races_with_the_start(void **state)
{
    for (unsigned int at = 0; at <= HG_BULK_PIECES_MAX; at++) {
        for (unsigned int how = 0; how < 3; how++) {
            struct scene scene;

            scene_open(&scene, *state);
            fake.context = scene.pair->target.context;
            fake.cancel = &scene.op_id;
            fake.cancel_at = at;
            /*
             * The call of NA_Get() that runs during the cancel succeeds, is refused for now, or
             * fails.
             */
            if (how == 1) {
                fake.refuse_at = at;
                fake.refusals = 1;
            } else if (how == 2) {
                fake.fail_at = at;
                fake.fail_ret = NA_FAULT;
            }
            assert_int_equal(scene_start(&scene), HG_SUCCESS);
            assert_int_equal(scene.outcome.count, 0);
            if (at == 0)
                assert_int_equal(fake.calls, 0);
            /* The piece that was being posted during the cancel is cancelled as well. */
            for (unsigned int i = 0; i < fake.posted_count; i++)
                assert_true(fake.posted[i].is_canceled);
            fake_complete_all();
            pair_wait(scene.pair, &scene.outcome);
            assert_int_equal(scene.outcome.ret, HG_CANCELED);
            assert_true(fake.calls <= at);
            scene_close(&scene, 1);
        }
    }
}

/*
 * A transfer whose first piece the transport refuses for now has started, and ends by its callback.
 */
static void first_piece_that_is_taken_later_is_a_start(void **state)
{
    struct scene scene;

    scene_open(&scene, *state);
    fake.refuse_at = 1;
    fake.refusals = 1;
    assert_int_equal(scene_start(&scene), HG_SUCCESS);
    assert_int_equal(fake.posted_count, 0);
    fake.fail_at = 2;
    fake.fail_ret = NA_NOMEM;
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_NOMEM);
    scene_close(&scene, 1);
}

static hg_return_t scene_start_timed(struct scene *scene, unsigned int deadline_ms)
{
    return HG_Bulk_transfer_deadline(scene->pair->target.context, outcome_set, &scene->outcome,
                                     HG_BULK_PULL, scene->pair->origin_addr, 0, scene->received, 0,
                                     scene->local.bulk, 0, PIECE_COUNT * PIECE_SIZE, deadline_ms,
                                     &scene->op_id);
}

static uint64_t timeouts(const struct scene *scene)
{
    struct hg_ext_counters counters;

    assert_int_equal(
        HG_Class_get_ext_counters(scene->pair->target.hg_class, &counters, sizeof(counters)),
        HG_SUCCESS);
    return counters.timeout_count;
}

static void transfer_in_time_is_no_timeout(void **state)
{
    struct scene scene;
    uint64_t before;

    scene_open(&scene, *state);
    before = timeouts(&scene);
    assert_int_equal(scene_start_timed(&scene, 60000), HG_SUCCESS);
    while (fake.outstanding > 0)
        fake_complete_all();
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_SUCCESS);
    assert_int_equal(timeouts(&scene), before);
    scene_close(&scene, 1);
}

/* The transport neither completes nor cancels the pieces that were posted. */
static void transfer_ends_when_its_time_is_over(void **state)
{
    for (unsigned int done = 0; done < PIECE_COUNT; done += 33) {
        struct scene scene;
        uint64_t before;

        scene_open(&scene, *state);
        before = timeouts(&scene);
        assert_int_equal(scene_start_timed(&scene, 10), HG_SUCCESS);
        for (unsigned int i = 0; i < done; i++)
            fake_complete(i, NA_SUCCESS);
        assert_false(HG_Bulk_in_use(scene.local.bulk));
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_TIMEOUT);
        assert_int_equal(timeouts(&scene), before + 1);
        /* The transfer's memory is in use until the transport has completed each piece. */
        assert_int_equal(fake.outstanding, PIECE_COUNT - done < HG_BULK_PIECES_MAX
                                               ? PIECE_COUNT - done
                                               : HG_BULK_PIECES_MAX);
        assert_true(HG_Bulk_in_use(scene.local.bulk));
        fake_complete_all();
        assert_int_equal(fake.outstanding, 0);
        assert_false(HG_Bulk_in_use(scene.local.bulk));
        scene_close(&scene, 1);
    }
}

static void cancelled_transfer_with_a_deadline_ends_soon(void **state)
{
    struct scene scene;
    uint64_t before;

    scene_open(&scene, *state);
    before = timeouts(&scene);
    assert_int_equal(scene_start_timed(&scene, 3600000), HG_SUCCESS);
    assert_int_equal(HG_Bulk_cancel(scene.op_id), HG_SUCCESS);
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_CANCELED);
    assert_int_equal(timeouts(&scene), before);
    assert_true(HG_Bulk_in_use(scene.local.bulk));
    fake_complete_all();
    assert_false(HG_Bulk_in_use(scene.local.bulk));
    scene_close(&scene, 1);
}

static void refused_transfer_ends_in_time(void **state)
{
    for (unsigned int victim = 1; victim <= HG_BULK_PIECES_MAX; victim += 5) {
        struct scene scene;

        scene_open(&scene, *state);
        fake.refuse_at = victim;
        fake.refusals = 1000000;
        assert_int_equal(scene_start_timed(&scene, 10), HG_SUCCESS);
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, HG_TIMEOUT);
        fake_complete_all();
        scene_close(&scene, 1);
    }
}

/* The class's default deadline applies only to transfers without a deadline of their own. */
static void class_has_a_deadline_for_transfers(void **state)
{
    struct scene scene;

    scene_open(&scene, *state);
    assert_int_equal(HG_Class_set_default_deadline(scene.pair->target.hg_class, 10), HG_SUCCESS);
    assert_int_equal(scene_start(&scene), HG_SUCCESS);
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_TIMEOUT);
    fake_complete_all();
    scene.outcome.count = 0;
    assert_int_equal(scene_start_timed(&scene, 0), HG_SUCCESS);
    (void) usleep(20000);
    pair_progress(scene.pair);
    assert_int_equal(scene.outcome.count, 0);
    assert_int_equal(HG_Class_set_default_deadline(scene.pair->target.hg_class, 0), HG_SUCCESS);
    while (fake.outstanding > 0)
        fake_complete_all();
    pair_wait(scene.pair, &scene.outcome);
    assert_int_equal(scene.outcome.ret, HG_SUCCESS);
    scene_close(&scene, 1);
}

struct restart {
    struct scene scene;
    hg_op_id_t first;
};

/* Starts another transfer and then cancels the ended one, as a thread that comes late. */
static hg_return_t restart_and_cancel(const struct hg_cb_info *info)
{
    struct restart *restart = info->arg;

    assert_int_equal(info->ret, HG_SUCCESS);
    assert_int_equal(scene_start(&restart->scene), HG_SUCCESS);
    assert_ptr_not_equal(restart->scene.op_id, restart->first);
    assert_int_equal(HG_Bulk_cancel(restart->first), HG_SUCCESS);
    return HG_SUCCESS;
}

static void late_cancel_hits_no_other_transfer(void **state)
{
    struct restart restart;
    struct scene *scene = &restart.scene;

    scene_open(scene, *state);
    assert_int_equal(HG_Bulk_transfer(scene->pair->target.context, restart_and_cancel, &restart,
                                      HG_BULK_PULL, scene->pair->origin_addr, scene->received, 0,
                                      scene->local.bulk, 0, PIECE_COUNT * PIECE_SIZE,
                                      &restart.first),
                     HG_SUCCESS);
    while (fake.outstanding > 0)
        fake_complete_all();
    pair_progress(scene->pair); /* runs the callback */
    assert_true(fake.outstanding > 0);
    while (fake.outstanding > 0)
        fake_complete_all();
    pair_wait(scene->pair, &scene->outcome);
    assert_int_equal(scene->outcome.ret, HG_SUCCESS);
    scene_close(scene, 1);
}

/* The second operation reuses the memory of the first one, but has another id. */
static void cancel_after_the_callback_hits_no_other_transfer(void **state)
{
    struct scene scene;
    hg_op_id_t ids[2];

    scene_open(&scene, *state);
    for (int i = 0; i < 2; i++) {
        scene.outcome.count = 0;
        assert_int_equal(HG_Bulk_transfer(scene.pair->target.context, outcome_set, &scene.outcome,
                                          HG_BULK_PULL, scene.pair->origin_addr, scene.received, 0,
                                          scene.local.bulk, 0, PIECE_COUNT * PIECE_SIZE, &ids[i]),
                         HG_SUCCESS);
        assert_int_equal(HG_Bulk_cancel(ids[0]), HG_SUCCESS);
        if (i == 1)
            assert_ptr_not_equal(ids[0], ids[1]);
        while (fake.outstanding > 0)
            fake_complete_all();
        pair_wait(scene.pair, &scene.outcome);
        assert_int_equal(scene.outcome.ret, i == 0 ? HG_CANCELED : HG_SUCCESS);
    }
    assert_int_equal(HG_Bulk_cancel(ids[1]), HG_SUCCESS);
    scene_close(&scene, 1);
}

static void repeated_transfers_allocate_nothing(void **state)
{
    struct pair *pair = *state;
    static const hg_size_t sizes[2] = {3000, 2000};
    unsigned long before = 0;
    struct memory origin;
    struct memory local;
    hg_bulk_t received;

    memset(&fake, 0, sizeof(fake));
    memory_make(&origin, pair->origin.hg_class, 2, sizes, HG_BULK_READWRITE, 1);
    memory_make(&local, pair->target.hg_class, 1, sizes, HG_BULK_READWRITE, 2);
    received = bulk_send(origin.bulk, 0, pair->target.hg_class);
    for (int round = 0; round < 120; round++) {
        if (round == 20)
            before = memory_use.count;
        assert_int_equal(transfer(pair, HG_BULK_PULL, received, 500, local.bulk, 0, 3000),
                         HG_SUCCESS);
    }
    assert_int_equal(memory_use.count, before);
    assert_int_equal(HG_Bulk_free(received), HG_SUCCESS);
    memory_free(&origin);
    memory_free(&local);
}

/* The whole life of two descriptors; returns HG_SUCCESS or the first error. */
static hg_return_t whole_life(struct pair *pair, char *bytes)
{
    struct outcome outcome = {0, HG_OTHER_ERROR, {{{NULL}}, NULL, HG_CB_LOOKUP, HG_SUCCESS}};
    static const hg_size_t sizes[3] = {100, 200, 300};
    void *ptrs[3] = {bytes, bytes + 1000, bytes + 2000};
    hg_bulk_t bulks[3] = {HG_BULK_NULL, HG_BULK_NULL, HG_BULK_NULL};
    char wire[4096];
    hg_size_t size;
    hg_return_t ret;

    ret = HG_Bulk_create(pair->origin.hg_class, 3, ptrs, sizes, HG_BULK_READWRITE, &bulks[0]);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_bind(bulks[0], pair->origin.context);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_create(pair->target.hg_class, 3, NULL, sizes, HG_BULK_READWRITE, &bulks[1]);
    if (ret == HG_SUCCESS) {
        size = HG_Bulk_get_serialize_size(bulks[0], 0);
        assert_in_range(size, 1, sizeof(wire));
        ret = HG_Bulk_serialize(wire, size, 0, bulks[0]);
    }
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_deserialize(pair->target.hg_class, &bulks[2], wire, size);
    if (ret == HG_SUCCESS)
        ret = HG_Bulk_bind_transfer(pair->target.context, outcome_set, &outcome, HG_BULK_PULL,
                                    bulks[2], 0, bulks[1], 0, 600, NULL);
    if (ret == HG_SUCCESS) {
        pair_wait(pair, &outcome);
        ret = outcome.ret;
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(HG_Bulk_free(bulks[i]), HG_SUCCESS);
    return ret;
}

static void each_allocation_may_fail(void **state)
{
    struct pair *pair = *state;
    static char bytes[3000];
    hg_return_t ret = HG_NOMEM;

    /*
     * This connects the two sides: UCX 1.13 may abort a process that connects again before the
     * first connection is made.
     */
    memset(&fake, 0, sizeof(fake));
    assert_int_equal(whole_life(pair, bytes), HG_SUCCESS);
    for (int segments = 0; segments < 2; segments++) {
        unsigned long fail_at = 0;

        memset(&fake, 0, sizeof(fake));
        fake.max_segments = segments == 0 ? 1 : 0;
        do {
            memory_use.fail_at = memory_use.count + ++fail_at;
            ret = whole_life(pair, bytes);
            /*
             * An allocation that fails need not be an error, so that the loop runs until none
             * fails.
             */
        } while (memory_use.count >= memory_use.fail_at);
        memory_use.fail_at = 0;
        assert_int_equal(ret, HG_SUCCESS);
        assert_in_range(fail_at, 5, 1000);
        assert_int_equal(whole_life(pair, bytes), HG_SUCCESS);
    }
    memset(&fake, 0, sizeof(fake));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(pieces_that_run_are_bounded),
        cmocka_unit_test(contiguous_memory_is_one_piece),
        cmocka_unit_test(pieces_respect_the_limit_of_the_transport),
        cmocka_unit_test(piece_that_fails_stops_the_others),
        cmocka_unit_test(piece_that_is_not_accepted_is_an_error_once),
        cmocka_unit_test(refused_pieces_are_tried_again),
        cmocka_unit_test(cancel_ends_once_nothing_runs),
        cmocka_unit_test(cancel_reaches_what_was_refused),
        cmocka_unit_test(cancel_races_with_the_start),
        cmocka_unit_test(first_piece_that_is_taken_later_is_a_start),
        cmocka_unit_test(cancel_after_the_end_changes_nothing),
        cmocka_unit_test(transfer_in_time_is_no_timeout),
        cmocka_unit_test(transfer_ends_when_its_time_is_over),
        cmocka_unit_test(cancelled_transfer_with_a_deadline_ends_soon),
        cmocka_unit_test(refused_transfer_ends_in_time),
        cmocka_unit_test(class_has_a_deadline_for_transfers),
        cmocka_unit_test(late_cancel_hits_no_other_transfer),
        cmocka_unit_test(cancel_after_the_callback_hits_no_other_transfer),
        cmocka_unit_test(repeated_transfers_allocate_nothing),
    };

    HG_Set_log_level("none");
    return cmocka_run_group_tests(tests, pair_open, pair_close);
}
