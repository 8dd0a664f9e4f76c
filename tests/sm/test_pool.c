/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the plugin allocates (NA_Mem_alloc): its budget, and transfers that peers make with
 * it in one copy, without the system. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "deny_attach.h"
#include "na_ext.h"
#include "sm_test.h"
#include "transport_rma.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "layout.h"

#define BYTES (3u << 20)
#define PAGE  4096u

/* Two endpoints of this process: `owner` exposes allocated memory, `user` accesses it. */
struct couple {
    struct end owner, user;
    na_addr_t *peer;
    uint8_t *exposed, *local; /* of BYTES */
    na_mem_handle_t *exposed_mem, *remote_mem, *local_mem;
};

static void couple_open(struct couple *couple, const char *init_string)
{
    end_open(&couple->owner, init_string, NULL);
    end_open(&couple->user, "na+sm", NULL);
    couple->peer = end_lookup(&couple->user, &couple->owner);
    couple->exposed = NA_Mem_alloc(couple->owner.na_class, BYTES);
    couple->local = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_non_null(couple->exposed);
    assert_true(couple->local != MAP_FAILED);
    couple->exposed_mem = mem_open(&couple->owner, couple->exposed, BYTES, NA_MEM_READWRITE);
    couple->remote_mem = sm_mem_pass(&couple->owner, &couple->user, couple->exposed_mem);
    couple->local_mem = mem_open(&couple->user, couple->local, BYTES, NA_MEM_READWRITE);
}

static void couple_close(struct couple *couple)
{
    NA_Mem_handle_free(couple->user.na_class, couple->remote_mem);
    mem_close(&couple->user, couple->local_mem);
    mem_close(&couple->owner, couple->exposed_mem);
    NA_Mem_free(couple->owner.na_class, couple->exposed);
    NA_Addr_free(couple->user.na_class, couple->peer);
    end_close(&couple->user);
    end_close(&couple->owner);
    (void) munmap(couple->local, BYTES);
}

static na_return_t couple_transfer(struct couple *couple, bool put, size_t size)
{
    return sm_transfer(&couple->user, &couple->owner, couple->peer, put, couple->local_mem,
                       couple->remote_mem, size);
}

/* Bytes of memory that an endpoint's segment takes. */
static uint64_t segment_bytes(const struct end *end)
{
    struct stat status;
    char address[128];
    int fd;

    end_address(end, address, sizeof(address));
    fd = sm_memory_of(address);
    assert_int_equal(fstat(fd, &status), 0);
    (void) close(fd);
    return (uint64_t) status.st_blocks * 512;
}

static void transfers_are_one_copy_without_the_system(void **state)
{
    struct couple couple;

    (void) state;
    couple_open(&couple, "na+sm");
    for (size_t i = 0; i < BYTES; i++)
        couple.exposed[i] = rma_exposed(i);
    assert_int_equal(couple_transfer(&couple, false, BYTES), NA_SUCCESS);
    assert_memory_equal(couple.local, couple.exposed, BYTES);
    memset(couple.local, 9, BYTES);
    assert_int_equal(couple_transfer(&couple, true, BYTES - 1), NA_SUCCESS);
    assert_memory_equal(couple.local, couple.exposed, BYTES - 1);
    assert_int_equal(couple.exposed[BYTES - 1], rma_exposed(BYTES - 1));
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 2);
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_copied"), 0);
    couple_close(&couple);
    check_clean();
}

/* A handle of several segments is shared if all of the transfer's memory is allocated. */
static void a_handle_may_mix_allocated_and_other_memory(void **state)
{
    static uint8_t other[PAGE];
    struct na_segment segments[3];
    na_mem_handle_t *mem;
    struct couple couple;

    (void) state;
    couple_open(&couple, "na+sm");
    memset(couple.exposed, 1, PAGE);
    memset(other, 2, PAGE);
    memset(couple.exposed + 2 * PAGE, 3, PAGE);
    segments[0] = (struct na_segment){couple.exposed + 2 * PAGE, PAGE};
    segments[1] = (struct na_segment){couple.exposed, PAGE};
    segments[2] = (struct na_segment){other, PAGE};
    assert_int_equal(
        NA_Mem_handle_create_segments(couple.owner.na_class, segments, 3, NA_MEM_READWRITE, &mem),
        NA_SUCCESS);
    assert_int_equal(NA_Mem_register(couple.owner.na_class, mem, NA_MEM_TYPE_HOST, 0), NA_SUCCESS);
    NA_Mem_handle_free(couple.user.na_class, couple.remote_mem);
    couple.remote_mem = sm_mem_pass(&couple.owner, &couple.user, mem);
    assert_int_equal(couple_transfer(&couple, false, 3 * PAGE), NA_SUCCESS);
    for (size_t i = 0; i < 3 * PAGE; i++)
        assert_int_equal(couple.local[i], i < PAGE ? 3 : i < 2 * PAGE ? 1 : 2);
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 0);
    memset(couple.local, 7, 2 * PAGE);
    assert_int_equal(couple_transfer(&couple, true, 2 * PAGE), NA_SUCCESS);
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 1);
    assert_int_equal(couple.exposed[0], 7);
    assert_int_equal(couple.exposed[3 * PAGE - 1], 7);
    assert_int_equal(couple.exposed[PAGE], 0);
    mem_close(&couple.owner, mem);
    couple_close(&couple);
    check_clean();
}

static void deregistered_memory_is_refused(void **state)
{
    struct couple couple;

    (void) state;
    couple_open(&couple, "na+sm");
    assert_int_equal(couple_transfer(&couple, true, BYTES), NA_SUCCESS);
    assert_int_equal(NA_Mem_deregister(couple.owner.na_class, couple.exposed_mem), NA_SUCCESS);
    memset(couple.exposed, 'e', BYTES);
    memset(couple.local, 'l', BYTES);
    assert_int_equal(couple_transfer(&couple, true, BYTES), NA_PERMISSION);
    assert_int_equal(couple_transfer(&couple, false, BYTES), NA_PERMISSION);
    for (size_t i = 0; i < BYTES; i++)
        assert_true(couple.exposed[i] == 'e' && couple.local[i] == 'l');
    couple_close(&couple);
    check_clean();
}

/* A page of the local memory that cannot be accessed stops a transfer in the middle. */
static uint8_t *barrier_page;
static _Atomic bool barrier_reached, barrier_open;

static void barrier_handler(int signal_number, siginfo_t *info, void *context)
{
    (void) context;
    if ((uint8_t *) info->si_addr < barrier_page ||
        (uint8_t *) info->si_addr >= barrier_page + PAGE) {
        (void) signal(signal_number, SIG_DFL);
        return;
    }
    atomic_store(&barrier_reached, true);
    while (!atomic_load(&barrier_open))
        (void) usleep(1000);
    (void) mprotect(barrier_page, PAGE, PROT_READ | PROT_WRITE);
}

/* A transfer that is stopped in the middle until the thread opens the barrier, and fails then. */
static void stop_in_the_middle(struct couple *couple, bool put, void *(*meanwhile)(void *),
                               void *arg)
{
    const struct sigaction action = {.sa_sigaction = barrier_handler, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    pthread_t thread;

    barrier_page = couple->local + 64 * PAGE;
    atomic_store(&barrier_reached, false);
    atomic_store(&barrier_open, false);
    assert_int_equal(mprotect(barrier_page, PAGE, PROT_NONE), 0);
    assert_int_equal(sigaction(SIGSEGV, &action, &before), 0);
    assert_int_equal(pthread_create(&thread, NULL, meanwhile, arg), 0);
    assert_int_equal(couple_transfer(couple, put, BYTES), NA_PERMISSION);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
}

struct withdrawal {
    struct couple *couple;
    bool was_withdrawn; /* while the transfer was stopped */
};

static _Atomic bool is_withdrawn;

static void *withdraw(void *arg)
{
    struct withdrawal *withdrawal = arg;

    assert_int_equal(
        NA_Mem_deregister(withdrawal->couple->owner.na_class, withdrawal->couple->exposed_mem),
        NA_SUCCESS);
    atomic_store(&is_withdrawn, true);
    return NULL;
}

static void *withdraw_meanwhile(void *arg)
{
    struct withdrawal *withdrawal = arg;
    pthread_t thread;

    while (!atomic_load(&barrier_reached))
        (void) usleep(1000);
    assert_int_equal(pthread_create(&thread, NULL, withdraw, arg), 0);
    for (int i = 0; i < 200 && !atomic_load(&is_withdrawn); i++)
        (void) usleep(1000);
    withdrawal->was_withdrawn = atomic_load(&is_withdrawn);
    atomic_store(&barrier_open, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return NULL;
}

/* Deregistration waits for a put, whose memory may be reused afterwards; a get is refused. */
static void deregistration_meets_a_transfer_in_the_middle(void **state)
{
    (void) state;
    for (int put = 0; put < 2; put++) {
        struct couple couple;
        struct withdrawal withdrawal = {.couple = &couple};

        couple_open(&couple, "na+sm");
        assert_int_equal(couple_transfer(&couple, put, BYTES), NA_SUCCESS);
        atomic_store(&is_withdrawn, false);
        stop_in_the_middle(&couple, put, withdraw_meanwhile, &withdrawal);
        assert_int_equal(withdrawal.was_withdrawn, put == 0);
        couple_close(&couple);
    }
    check_clean();
}

/* Deregisters, frees and allocates again while a put is stopped: what the put writes later must
 * not be in the new memory. */
static void *reuse_meanwhile(void *arg)
{
    struct couple *couple = arg;

    while (!atomic_load(&barrier_reached))
        (void) usleep(1000);
    mem_close(&couple->owner, couple->exposed_mem); /* waits for 10 s */
    NA_Mem_free(couple->owner.na_class, couple->exposed);
    couple->exposed = NA_Mem_alloc(couple->owner.na_class, BYTES);
    assert_non_null(couple->exposed);
    atomic_store(&barrier_open, true);
    return NULL;
}

static void memory_of_a_stopped_put_is_not_used_again(void **state)
{
    struct couple couple;

    (void) state;
    couple_open(&couple, "na+sm");
    memset(couple.local, 7, BYTES);
    stop_in_the_middle(&couple, true, reuse_meanwhile, &couple);
    for (size_t i = 0; i < BYTES; i++)
        if (couple.exposed[i] != 0)
            fail_msg("byte %zu is the stopped put's", i);
    couple.exposed_mem = mem_open(&couple.owner, couple.exposed, BYTES, NA_MEM_READWRITE);
    couple_close(&couple);
    check_clean();
}

/* Free blocks of other sizes use up the region, until none is used. */
static void blocks_of_other_sizes_make_room(void **state)
{
    static const size_t sizes[] = {1u << 20, 1280u << 10, 1536u << 10, 1792u << 10, 2560u << 10};
    struct end end;
    uint8_t *lowest = NULL;

    (void) state;
    end_open(&end, "na+sm://?pool=8M", NULL); /* a region of 32 MiB */
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
        uint8_t *blocks[8] = {NULL};

        for (size_t j = 0; j < (8u << 20) / size; j++) {
            blocks[j] = NA_Mem_alloc(end.na_class, size);
            assert_non_null(blocks[j]);
            lowest = lowest == NULL ? blocks[j] : lowest;
            if (blocks[j] < lowest || blocks[j] + size > lowest + (32u << 20))
                fail_msg("block %zu of %zu bytes is ordinary memory", j, size);
        }
        for (size_t j = 0; j < 8; j++)
            NA_Mem_free(end.na_class, blocks[j]);
    }
    end_close(&end);
    check_clean();
}

static void memory_is_zero_filled_when_it_is_used_again(void **state)
{
    static const size_t sizes[] = {PAGE, PAGE + 1, 5 * PAGE, 9 * PAGE - 1, 1u << 20, 100u << 20};
    struct end end;

    (void) state;
    end_open(&end, "na+sm", NULL);
    for (size_t i = 0; i < 3 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const size_t size = sizes[i / 3];
        uint8_t *first = NA_Mem_alloc(end.na_class, size);
        uint8_t *second = NA_Mem_alloc(end.na_class, size);

        assert_true(first != NULL && second != NULL);
        assert_true(first + size <= second || second + size <= first);
        for (size_t j = 0; j<size; j += size> 1u << 20 ? 1001 : 1)
            if (first[j] != 0 || second[j] != 0)
                fail_msg("byte %zu of %zu is not zero", j, size);
        memset(first, 0xff, size);
        memset(second, 0xff, size);
        NA_Mem_free(end.na_class, first);
        NA_Mem_free(end.na_class, second);
    }
    end_close(&end);
    check_clean();
}

/* A part of what was freed is kept for the next use, the rest is the system's again. */
static void freed_memory_is_returned_to_the_system(void **state)
{
    void *blocks[40];
    struct end end;
    uint64_t before, most;

    (void) state;
    end_open(&end, "na+sm", NULL);
    before = segment_bytes(&end);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            blocks[i] = NA_Mem_alloc(end.na_class, 4u << 20);
            assert_non_null(blocks[i]);
            memset(blocks[i], 1, 4u << 20); /* pages are taken when they are touched */
        }
        most = segment_bytes(&end);
        assert_true(most >= before + (160u << 20) && most < before + (170u << 20));
        for (int i = 0; i < 40; i++)
            NA_Mem_free(end.na_class, blocks[i]);
        assert_true(segment_bytes(&end) <= before + (66u << 20));
    }
    end_close(&end);
    check_clean();
}

/* Beyond the budget, memory is ordinary memory; what is kept for the next use makes room first. */
static void a_budget_limits_what_is_shared(void **state)
{
    struct couple couple;
    void *large, *small;

    (void) state;
    couple_open(&couple, "na+sm://?pool=4M"); /* BYTES are taken */
    large = NA_Mem_alloc(couple.owner.na_class, 2u << 20);
    small = NA_Mem_alloc(couple.owner.na_class, 1u << 20);
    assert_true(large != NULL && small != NULL);
    assert_true(segment_bytes(&couple.owner) < 5u << 20);
    NA_Mem_free(couple.owner.na_class, large);
    NA_Mem_free(couple.owner.na_class, small);
    assert_int_equal(couple_transfer(&couple, false, BYTES), NA_SUCCESS);
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 1);
    NA_Mem_handle_free(couple.user.na_class, couple.remote_mem);
    mem_close(&couple.owner, couple.exposed_mem);
    NA_Mem_free(couple.owner.na_class, couple.exposed);
    couple.exposed = NA_Mem_alloc(couple.owner.na_class, 4u << 20); /* the kept blocks go */
    assert_true(segment_bytes(&couple.owner) < 5u << 20);
    couple.exposed_mem = mem_open(&couple.owner, couple.exposed, BYTES, NA_MEM_READWRITE);
    couple.remote_mem = sm_mem_pass(&couple.owner, &couple.user, couple.exposed_mem);
    assert_int_equal(couple_transfer(&couple, true, BYTES), NA_SUCCESS);
    assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 2);
    couple_close(&couple);
    check_clean();
}

/* Without a pool at the owner, or with copies at the user, memory is allocated all the same. */
static void without_a_pool_memory_is_ordinary(void **state)
{
    static const char *const inits[] = {"na+sm://?pool=0", "na+sm://?rma=copy"};

    (void) state;
    for (size_t i = 0; i < 2; i++) {
        struct couple couple;

        couple_open(&couple, inits[i]);
        assert_true(segment_bytes(&couple.owner) < 1u << 20);
        assert_int_equal(couple_transfer(&couple, false, BYTES), NA_SUCCESS);
        assert_int_equal(couple_transfer(&couple, true, BYTES), NA_SUCCESS);
        assert_int_equal(sm_counter(&couple.user, "na_sm_transfers_shared"), 0);
        couple_close(&couple);
    }
    check_clean();
}

static void impossible_budgets_are_refused(void **state)
{
    static const char *const wrong[] = {
        "", "-1", "x", "1Q", "1MB", "1025G", "99999999999999999999", "2T"};

    (void) state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char init[64], reason[1024] = "";
        na_class_t *na_class;

        (void) snprintf(init, sizeof(init), "na+sm://?pool=%s", wrong[i]);
        assert_int_equal(
            NA_Initialize_reason(init, true, 0, NULL, &na_class, reason, sizeof(reason)),
            NA_INVALID_ARG);
        assert_non_null(strstr(reason, "option pool is '"));
    }
}

/* A limit of the size of files, or of the address space, leaves ordinary memory. */
static int allocate_within_limits(void *arg)
{
    const struct rlimit limit = {.rlim_cur = UINT64_C(1) << 29, .rlim_max = RLIM_INFINITY};
    const int *resource = arg;
    struct end end;
    uint8_t *memory;

    (void) signal(SIGXFSZ, SIG_DFL);
    if (*resource == RLIMIT_AS)
        TEST_REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    else
        TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    end.na_class = NA_Initialize("na+sm", true);
    TEST_REQUIRE(end.na_class != NULL);
    memory = NA_Mem_alloc(end.na_class, 1u << 20);
    TEST_REQUIRE(memory != NULL);
    memset(memory, 1, 1u << 20);
    NA_Mem_free(end.na_class, memory);
    TEST_REQUIRE(NA_Finalize(end.na_class) == NA_SUCCESS);
    return 0;
}

static void limits_of_the_process_leave_ordinary_memory(void **state)
{
    int resources[] = {RLIMIT_FSIZE, RLIMIT_AS};

    (void) state;
    /* The sanitizers need more address space than the limit. */
    for (int i = 0; i < (TEST_SANITIZED ? 1 : 2); i++)
        assert_int_equal(run_in_child(allocate_within_limits, &resources[i]), 0);
    check_clean();
}

static void wrong_frees_are_noticed(void **state)
{
    struct end end;
    char text[4096];
    uint8_t *memory;

    (void) state;
    end_open(&end, "na+sm", NULL);
    assert_null(NA_Mem_alloc(end.na_class, 0));
    assert_null(NA_Mem_alloc(NULL, PAGE));
    NA_Mem_free(end.na_class, NULL);
    NA_Mem_free(end.na_class, NA_Mem_alloc(end.na_class, 1)); /* ordinary memory */
    memory = NA_Mem_alloc(end.na_class, 4 * PAGE);
    assert_non_null(memory);
    sm_log_catch("error");
    NA_Mem_free(end.na_class, memory + PAGE);
    sm_log_caught(text, sizeof(text));
    assert_non_null(strstr(text, "is not the beginning of allocated memory"));
    NA_Mem_free(end.na_class, memory);
    sm_log_catch("error");
    NA_Mem_free(end.na_class, memory);
    sm_log_caught(text, sizeof(text));
    assert_non_null(strstr(text, "it was freed before"));
    end_close(&end);
    check_clean();
}

/* A peer that lies about its pool is served by the system, and nothing of ours is touched. */
static void impossible_pools_are_not_mapped(void **state)
{
    static const struct {
        uint64_t offset, base, size;
    } lies[] = {
        {0, 0, UINT64_MAX},           {0, 0, UINT64_C(1) << 60}, {1, 0, 0},
        {UINT64_MAX - PAGE, 0, 0},    {0, UINT64_MAX - PAGE, 0}, {0, PAGE, 0},
        {UINT64_C(1) << 62, 0, PAGE},
    };

    (void) state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct sm_segment_header *header;
        struct couple couple;
        char address[128];
        int fd;

        couple_open(&couple, "na+sm");
        end_address(&couple.owner, address, sizeof(address));
        fd = sm_memory_of(address);
        header = mmap(NULL, sizeof(*header), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(header != MAP_FAILED);
        header->pool_offset += lies[i].offset;
        header->pool_base += lies[i].base;
        header->pool_size += lies[i].size;
        memset(couple.exposed, 3, BYTES);
        assert_int_equal(couple_transfer(&couple, false, BYTES), NA_SUCCESS);
        if (sm_counter(&couple.user, "na_sm_transfers_shared") == 0)
            for (size_t j = 0; j < BYTES; j++)
                assert_int_equal(couple.local[j], 3);
        header->pool_offset -= lies[i].offset;
        header->pool_base -= lies[i].base;
        header->pool_size -= lies[i].size;
        (void) munmap(header, sizeof(*header));
        (void) close(fd);
        couple_close(&couple);
    }
    check_clean();
}

/* Where the system refuses cross-memory attach, allocated memory needs none. */
static int transfer_without_attach(void *arg)
{
    struct rma rma;

    (void) arg;
    if (!deny_attach_install())
        return 77;
    TEST_REQUIRE(rma_open(&rma, "allocated", NA_MEM_READWRITE, BYTES, 1) == 0);
    TEST_REQUIRE(rma_transfer(&rma, false, 0, 0, BYTES) == NA_SUCCESS);
    for (size_t i = 0; i < BYTES; i++)
        TEST_REQUIRE(rma.local[i] == rma_exposed(i));
    memset(rma.local, 9, BYTES);
    TEST_REQUIRE(rma_transfer(&rma, true, 0, 0, BYTES) == NA_SUCCESS);
    TEST_REQUIRE(rma_remote_sum(&rma) == 9ull * BYTES);
    TEST_REQUIRE(sm_counter(&rma.end, "na_sm_transfers_shared") == 2);
    TEST_REQUIRE(sm_counter(&rma.end, "na_sm_transfers_copied") == 0);
    rma_close(&rma, true);
    return 0;
}

static void allocated_memory_needs_no_attach(void **state)
{
    int ret = run_in_child(transfer_without_attach, NULL);

    (void) state;
    if (ret == 77)
        test_skip("seccomp filters are not available");
    assert_int_equal(ret, 0);
    check_clean();
}

/* The peer's death is noticed as with other memory. */
static void transfers_with_a_killed_peer_end(void **state)
{
    uint64_t until = now_ms() + TEST_DEATH_MS;
    na_return_t ret;
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "allocated", NA_MEM_READWRITE, BYTES, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    child_kill(&rma.child);
    do {
        ret = rma_transfer(&rma, true, 0, 0, BYTES);
        end_progress(&rma.end, 10);
    } while (ret == NA_SUCCESS && now_ms() < until);
    assert_int_equal(ret, NA_HOSTUNREACH);
    rma_close(&rma, false);
}

static int use_inherited(void *arg)
{
    const struct couple *couple = arg;

    TEST_REQUIRE(NA_Mem_alloc(couple->owner.na_class, BYTES) == NULL);
    NA_Mem_free(couple->owner.na_class, couple->exposed);
    return 0;
}

/* A forked child can neither allocate from the parent's pool nor free what is in it. */
static void a_forked_child_leaves_the_pool_alone(void **state)
{
    struct couple couple;
    int status = 0;
    pid_t pid;

    (void) state;
    couple_open(&couple, "na+sm");
    memset(couple.exposed, 4, BYTES);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(use_inherited(&couple));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(couple_transfer(&couple, false, BYTES), NA_SUCCESS);
    for (size_t i = 0; i < BYTES; i++)
        assert_int_equal(couple.local[i], 4);
    couple_close(&couple);
    check_clean();
}

/* Threads allocate and free at the same time, and find only what they wrote. */
static int churn(struct end *end)
{
    const uint8_t mine = (uint8_t) ((uintptr_t) pthread_self() >> 12);
    uint8_t *blocks[16] = {NULL};
    size_t sizes[16];

    for (unsigned int i = 0; i < 4000; i++) {
        const unsigned int at = i * 7 % 16;

        if (blocks[at] != NULL) {
            TEST_REQUIRE(blocks[at][0] == mine && blocks[at][sizes[at] - 1] == mine);
            NA_Mem_free(end->na_class, blocks[at]);
        }
        sizes[at] = (1 + i % 13) * PAGE + i % 3;
        blocks[at] = NA_Mem_alloc(end->na_class, sizes[at]);
        TEST_REQUIRE(blocks[at] != NULL && blocks[at][0] == 0 && blocks[at][sizes[at] - 1] == 0);
        memset(blocks[at], mine, sizes[at]);
    }
    for (unsigned int at = 0; at < 16; at++)
        NA_Mem_free(end->na_class, blocks[at]);
    return 0;
}

static void *churn_thread(void *arg)
{
    return (void *) (intptr_t) churn(arg);
}

static void threads_share_the_pool(void **state)
{
    pthread_t threads[4];
    struct end end;

    (void) state;
    end_open(&end, "na+sm", NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn_thread, &end), 0);
    for (int i = 0; i < 4; i++) {
        void *failure = NULL;

        assert_int_equal(pthread_join(threads[i], &failure), 0);
        assert_null(failure);
    }
    end_close(&end);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_are_one_copy_without_the_system),
        cmocka_unit_test(a_handle_may_mix_allocated_and_other_memory),
        cmocka_unit_test(deregistered_memory_is_refused),
        cmocka_unit_test(deregistration_meets_a_transfer_in_the_middle),
        cmocka_unit_test(memory_of_a_stopped_put_is_not_used_again),
        cmocka_unit_test(blocks_of_other_sizes_make_room),
        cmocka_unit_test(memory_is_zero_filled_when_it_is_used_again),
        cmocka_unit_test(freed_memory_is_returned_to_the_system),
        cmocka_unit_test(a_budget_limits_what_is_shared),
        cmocka_unit_test(without_a_pool_memory_is_ordinary),
        cmocka_unit_test(impossible_budgets_are_refused),
        cmocka_unit_test(limits_of_the_process_leave_ordinary_memory),
        cmocka_unit_test(wrong_frees_are_noticed),
        cmocka_unit_test(impossible_pools_are_not_mapped),
        cmocka_unit_test(allocated_memory_needs_no_attach),
        cmocka_unit_test(transfers_with_a_killed_peer_end),
        cmocka_unit_test(a_forked_child_leaves_the_pool_alone),
        cmocka_unit_test(threads_share_the_pool),
    };

    return cmocka_run_group_tests(tests, NULL, teardown_clean);
}
