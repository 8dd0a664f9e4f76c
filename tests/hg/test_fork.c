/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A process forks while it has classes open. The child is refused the use of everything it
 * inherited, and opens a class of its own. The parent is not disturbed, even when the child ends by
 * exit().
 */
#include "hg_fixture.h"

#include "../test_sanitized.h"
#include "mercury_bulk.h"
#include "na.h"
#include "na_ext.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_MS 60000u

/* Objects that the child inherits. */
struct inherited {
    struct pair *pair;
    char address[512]; /* of the target */
    hg_handle_t idle;
    hg_bulk_t bulk;
    uint8_t memory[64];
    uint8_t packed[4096];
    na_class_t *na_class;
    na_context_t *na_context;
    na_addr_t *na_addr; /* the class's own address */
    na_op_id_t *na_op;
};

static atomic_uint refusals; /* lines of the log about refused calls */

/* For the child: prints the failed condition and ends the process. */
#define REQUIRE(condition)                                                        \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void) fprintf(stderr, "child, line %d: %s\n", __LINE__, #condition); \
            _exit(1);                                                             \
        }                                                                         \
    } while (0)

static int count_refusals(FILE *stream, const char *format, ...)
{
    char line[512] = "";
    va_list args;
    int size;

    (void) stream;
    va_start(args, format);
    size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (strstr(line, "inherited by fork()") != NULL)
        atomic_fetch_add(&refusals, 1);
    return size;
}

static hg_return_t never(const struct hg_cb_info *info)
{
    (void) info;
    (void) fprintf(stderr, "child: a callback of the parent's ran\n");
    _exit(1);
}

static void na_never(const struct na_cb_info *info)
{
    (void) info;
    (void) fprintf(stderr, "child: a callback of the parent's ran\n");
    _exit(1);
}

static void refuse_class(struct inherited *inherited)
{
    hg_class_t *hg_class = inherited->pair->origin.hg_class;
    hg_size_t size = sizeof(inherited->address);
    struct hg_diag_counters counters;
    hg_addr_t addr;

    REQUIRE(HG_Addr_lookup2(hg_class, inherited->address, &addr) == HG_PERMISSION);
    REQUIRE(HG_Addr_self(hg_class, &addr) == HG_PERMISSION);
    REQUIRE(HG_Addr_dup(hg_class, inherited->pair->addr, &addr) == HG_PERMISSION);
    REQUIRE(HG_Addr_to_string(hg_class, inherited->address, &size, inherited->pair->addr) ==
            HG_PERMISSION);
    REQUIRE(HG_Addr_set_remove(hg_class, inherited->pair->addr) == HG_PERMISSION);
    REQUIRE(HG_Addr_free(hg_class, inherited->pair->addr) == HG_PERMISSION);
    REQUIRE(HG_Register(hg_class, 77, NULL, NULL, NULL) == HG_PERMISSION);
    REQUIRE(HG_Register_name(hg_class, "late", NULL, NULL, NULL) == 0);
    REQUIRE(HG_Deregister(hg_class, RPC_NULL) == HG_PERMISSION);
    REQUIRE(HG_Class_get_counters(hg_class, &counters) == HG_PERMISSION);
    REQUIRE(HG_Class_set_overflow_budget(hg_class, 1, 1) == HG_PERMISSION);
    REQUIRE(HG_Context_create(hg_class) == NULL);
    REQUIRE(HG_Finalize(hg_class) == HG_PERMISSION);
    REQUIRE(HG_Finalize(inherited->pair->target.hg_class) == HG_PERMISSION);
}

static void refuse_context(struct inherited *inherited)
{
    hg_context_t *context = inherited->pair->origin.context;
    hg_handle_t handle;
    unsigned int count;
    hg_op_id_t op_id;

    REQUIRE(HG_Progress(context, 0) == HG_PERMISSION);
    REQUIRE(HG_Progress(context, 1000) == HG_PERMISSION);
    REQUIRE(HG_Trigger(context, 0, 1, &count) == HG_PERMISSION);
    REQUIRE(HG_Event_progress(context, &count) == HG_PERMISSION);
    REQUIRE(HG_Event_trigger(context, 1, &count) == HG_PERMISSION);
    REQUIRE(HG_Event_get_wait_fd(context) == -1);
    REQUIRE(HG_Create(context, inherited->pair->addr, RPC_NULL, &handle) == HG_PERMISSION);
    REQUIRE(HG_Addr_lookup1(context, never, NULL, inherited->address, &op_id) == HG_PERMISSION);
    REQUIRE(HG_Context_unpost(context) == HG_PERMISSION);
    REQUIRE(HG_Context_destroy(context) == HG_PERMISSION);
    REQUIRE(HG_Context_destroy(inherited->pair->target.context) == HG_PERMISSION);
}

static void refuse_handles(struct inherited *inherited)
{
    hg_handle_t held = inherited->pair->target.held[0];
    hg_size_t size;
    void *buf;

    REQUIRE(HG_Forward(inherited->idle, never, NULL, NULL) == HG_PERMISSION);
    REQUIRE(HG_Reset(inherited->idle, inherited->pair->addr, RPC_NULL) == HG_PERMISSION);
    REQUIRE(HG_Cancel(inherited->idle) == HG_PERMISSION);
    REQUIRE(HG_Ref_incr(inherited->idle) == HG_PERMISSION);
    REQUIRE(HG_Destroy(inherited->idle) == HG_PERMISSION);
    REQUIRE(HG_Respond(held, never, NULL, NULL) == HG_PERMISSION);
    REQUIRE(HG_Get_input_buf(held, &buf, &size) == HG_PERMISSION);
    REQUIRE(HG_Destroy(held) == HG_PERMISSION);
    REQUIRE(HG_Get_info(held) != NULL); /* calls that only read still work */
}

static void refuse_bulk(struct inherited *inherited)
{
    struct pair *pair = inherited->pair;
    hg_size_t size = sizeof(inherited->memory);
    void *memory = inherited->memory;
    hg_bulk_t bulk;

    REQUIRE(HG_Bulk_create(pair->origin.hg_class, 1, &memory, &size, HG_BULK_READWRITE, &bulk) ==
            HG_PERMISSION);
    REQUIRE(HG_Bulk_serialize(inherited->packed, sizeof(inherited->packed), 0, inherited->bulk) ==
            HG_PERMISSION);
    REQUIRE(HG_Bulk_deserialize(pair->origin.hg_class, &bulk, inherited->packed,
                                sizeof(inherited->packed)) == HG_PERMISSION);
    REQUIRE(HG_Bulk_transfer(pair->origin.context, never, NULL, HG_BULK_PULL, pair->addr,
                             inherited->bulk, 0, inherited->bulk, 0, 8,
                             HG_OP_ID_IGNORE) == HG_PERMISSION);
    REQUIRE(HG_Bulk_free(inherited->bulk) == HG_PERMISSION);
}

static void refuse_na(struct inherited *inherited)
{
    na_class_t *na_class = inherited->na_class;
    na_context_t *context = inherited->na_context;
    na_op_id_t *op = inherited->na_op;
    na_addr_t *addr;
    void *data;

    REQUIRE(NA_Poll(na_class, context, NULL) == NA_PERMISSION);
    REQUIRE(NA_Poll_wait(na_class, context, 1000, NULL) == NA_PERMISSION);
    REQUIRE(NA_Trigger(context, 1, NULL) == NA_PERMISSION);
    REQUIRE(NA_Msg_send_unexpected(na_class, context, na_never, NULL, inherited->memory, 8, NULL,
                                   inherited->na_addr, 0, 1, op) == NA_PERMISSION);
    REQUIRE(NA_Msg_send_expected(na_class, context, na_never, NULL, inherited->memory, 8, NULL,
                                 inherited->na_addr, 0, 1, op) == NA_PERMISSION);
    REQUIRE(NA_Msg_recv_unexpected(na_class, context, na_never, NULL, inherited->memory, 64, NULL,
                                   op) == NA_PERMISSION);
    REQUIRE(NA_Msg_recv_expected(na_class, context, na_never, NULL, inherited->memory, 64, NULL,
                                 inherited->na_addr, 0, 1, op) == NA_PERMISSION);
    REQUIRE(NA_Cancel(na_class, context, op) == NA_PERMISSION);
    NA_Op_destroy(na_class, op);
    NA_Addr_free(na_class, inherited->na_addr);
    REQUIRE(NA_Context_destroy(na_class, context) == NA_PERMISSION);

    REQUIRE(NA_Addr_self(na_class, &addr) == NA_PERMISSION);
    REQUIRE(NA_Context_create(na_class) == NULL);
    REQUIRE(NA_Op_create(na_class, NA_OP_SINGLE) == NULL);
    REQUIRE(NA_Msg_buf_alloc(na_class, 64, NA_SEND, &data) == NULL);
    REQUIRE(NA_Finalize(na_class) == NA_PERMISSION);
}

/* The child calls the parent over a class of its own. */
static void call_the_parent(const struct inherited *inherited)
{
    struct outcome outcome = {0};
    struct side own = {0};
    struct blob blob, back = {0};
    uint64_t until = now_ms() + CHILD_MS;
    hg_handle_t handle;
    hg_addr_t addr;

    own.hg_class = test_class_open(HG_TRUE, NULL);
    REQUIRE(own.hg_class != NULL);
    own.context = HG_Context_create(own.hg_class);
    REQUIRE(own.context != NULL);
    side_register(&own);
    REQUIRE(HG_Addr_lookup2(own.hg_class, inherited->address, &addr) == HG_SUCCESS);
    REQUIRE(HG_Create(own.context, addr, RPC_ECHO, &handle) == HG_SUCCESS);
    blob_make(&blob, 1000, 3);
    REQUIRE(HG_Forward(handle, outcome_set, &outcome, &blob) == HG_SUCCESS);
    while (atomic_load(&outcome.count) == 0 && now_ms() < until) {
        (void) HG_Progress(own.context, 10);
        (void) HG_Trigger(own.context, 0, 16, NULL);
    }
    REQUIRE(atomic_load(&outcome.count) == 1 && outcome.ret == HG_SUCCESS);
    REQUIRE(HG_Get_output(handle, &back) == HG_SUCCESS);
    REQUIRE(back.size == blob.size && memcmp(back.data, blob.data, blob.size) == 0);
    REQUIRE(HG_Free_output(handle, &back) == HG_SUCCESS);
    free(blob.data);
    REQUIRE(HG_Destroy(handle) == HG_SUCCESS);
    REQUIRE(HG_Addr_free(own.hg_class, addr) == HG_SUCCESS);
    REQUIRE(HG_Context_destroy(own.context) == HG_SUCCESS);
    REQUIRE(HG_Finalize(own.hg_class) == HG_SUCCESS);
}

/* MPI and UCX cannot be opened in the child of a process that uses them. */
static bool test_can_open_again(void)
{
    return strncmp(test_init_string(), "mpi", 3) != 0 && strncmp(test_init_string(), "ucx", 3) != 0;
}

static void child_run(struct inherited *inherited)
{
    HG_Set_log_func(count_refusals);
    refuse_context(inherited);
    refuse_handles(inherited);
    refuse_bulk(inherited);
    refuse_na(inherited);
    refuse_class(inherited);
    REQUIRE(atomic_load(&refusals) >= 5);
    HG_Set_log_func(NULL);
    HG_Diag_dump_counters(); /* dumps nothing: the child has no class open */
    if (test_can_open_again())
        call_the_parent(inherited);
    else
        REQUIRE(test_class_open(HG_TRUE, NULL) == NULL);
#if defined(__SANITIZE_ADDRESS__)
    if (!test_can_open_again()) /* memory of UCX's thread would be called a leak */
        _exit(0);
#endif
    exit(0);
}

/* Serve RPCs until the child has ended; returns its status. */
static int serve_until_end(const struct pair *pair, pid_t pid)
{
    uint64_t until = now_ms() + CHILD_MS;
    int status = -1;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (now_ms() > until) {
            (void) kill(pid, SIGABRT);
            (void) waitpid(pid, &status, 0);
            break;
        }
        pair_progress(pair);
    }
    return status;
}

static void prepare(struct inherited *inherited, struct pair *pair)
{
    hg_size_t size = sizeof(inherited->address), length = sizeof(inherited->memory);
    void *memory = inherited->memory;
    hg_addr_t self;

    memset(inherited, 0, sizeof(*inherited));
    inherited->pair = pair;
    assert_int_equal(HG_Addr_self(pair->target.hg_class, &self), HG_SUCCESS);
    assert_int_equal(HG_Addr_to_string(pair->target.hg_class, inherited->address, &size, self),
                     HG_SUCCESS);
    assert_int_equal(HG_Addr_free(pair->target.hg_class, self), HG_SUCCESS);
    inherited->na_class = NA_Initialize(test_init_string(), true);
    assert_non_null(inherited->na_class);
    inherited->na_context = NA_Context_create(inherited->na_class);
    assert_non_null(inherited->na_context);
    assert_int_equal(NA_Addr_self(inherited->na_class, &inherited->na_addr), NA_SUCCESS);
    inherited->na_op = NA_Op_create(inherited->na_class, NA_OP_SINGLE);
    assert_non_null(inherited->na_op);
    inherited->idle = pair_create(pair, RPC_NULL);
    assert_int_equal(HG_Bulk_create(pair->origin.hg_class, 1, &memory, &length, HG_BULK_READWRITE,
                                    &inherited->bulk),
                     HG_SUCCESS);
}

/* The parent has an RPC in flight during the fork, and completes other ones before and after it. */
static void a_child_opens_its_own_and_harms_nothing(void **state)
{
    struct pair *pair = *state;
    static struct inherited inherited;
    struct outcome outcome = {0};
    struct blob blob;
    hg_handle_t waiting;
    pid_t pid;

    prepare(&inherited, pair);
    pair_echo(pair, 100);
    waiting = pair_create(pair, RPC_HOLD);
    blob_make(&blob, 10, 1);
    assert_int_equal(HG_Forward(waiting, outcome_set, &outcome, &blob), HG_SUCCESS);
    pair_wait_held(pair, &pair->target, 1);
    for (int i = 0; i < 2; i++) { /* one child after the other */
        (void) fflush(NULL);
        pid = fork();
        if (pid == 0)
            child_run(&inherited);
        assert_true(pid > 0);
        assert_int_equal(serve_until_end(pair, pid), 0);
        for (uint32_t size = 0; size < 10; size++)
            pair_echo(pair, size * 100);
    }
    assert_int_equal(atomic_load(&outcome.count), 0);
    side_respond_held(&pair->target, &blob);
    pair_wait_for(pair, &outcome.count, 1);
    assert_int_equal(outcome.ret, HG_SUCCESS);
    free(blob.data);
    assert_int_equal(HG_Destroy(waiting), HG_SUCCESS);
    assert_int_equal(pair_call(pair, inherited.idle, NULL), HG_SUCCESS);
    assert_int_equal(HG_Destroy(inherited.idle), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(inherited.bulk), HG_SUCCESS);
    NA_Op_destroy(inherited.na_class, inherited.na_op);
    NA_Addr_free(inherited.na_class, inherited.na_addr);
    assert_int_equal(NA_Context_destroy(inherited.na_class, inherited.na_context), NA_SUCCESS);
    assert_int_equal(NA_Finalize(inherited.na_class), NA_SUCCESS);
}

static atomic_bool is_over;

/* Takes the global locks of the library all the time. */
static void *keep_busy(void *arg)
{
    (void) arg;
    while (!atomic_load(&is_over)) {
        hg_class_t *hg_class = test_class_open(HG_TRUE, NULL);

        if (hg_class == NULL)
            return arg;
        HG_Set_log_level("error");
        HG_Diag_dump_counters();
        (void) HG_Finalize(hg_class);
    }
    return NULL;
}

static int drop(FILE *stream, const char *format, ...)
{
    (void) stream;
    (void) format;
    return 0;
}

/*
 * Only over shared memory, because a fabric's library may have locks of its own that a fork leaves
 * held.
 */
static void a_fork_beside_busy_threads_leaves_no_lock_held(void **state)
{
    pthread_t threads[2];
    int status;

    (void) state;
    if (!test_is_sm())
        test_skip("what the fabric's library locks is its business");
    if (TEST_SANITIZED)
        test_skip("the sanitizer's allocator keeps the locks of other threads in a child");
    HG_Set_log_func(drop);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, keep_busy, threads), 0);
    for (int i = 0; i < 60; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            hg_class_t *hg_class;

            (void) alarm(CHILD_MS / 1000);
            hg_class = test_class_open(HG_TRUE, NULL);
            REQUIRE(hg_class != NULL && HG_Finalize(hg_class) == HG_SUCCESS);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++) {
        void *result = NULL;

        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    HG_Set_log_func(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_opens_its_own_and_harms_nothing),
        cmocka_unit_test(a_fork_beside_busy_threads_leaves_no_lock_held),
    };

    return cmocka_run_group_tests(tests, pair_setup, pair_teardown);
}
