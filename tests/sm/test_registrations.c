/* SPDX-License-Identifier: BSD-3-Clause */
/* An origin that accesses the memory of its target by cross-memory attach: a memory handle is valid
 * only for memory that the target has registered, and only while it is registered. */

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE
#endif

#include "sm_test.h"
#include "transport_rma.h"

#include <endian.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "kit_region.h"
#include "layout.h"

#define BYTES 99000u

/* Two endpoints of this process: `owner` exposes memory, `user` accesses it. */
struct couple {
    struct end owner, user;
    na_addr_t *peer; /* the owner, as the user addresses it */
    uint8_t *exposed, *local;
    na_mem_handle_t *local_mem;
};

static na_return_t couple_transfer(struct couple *couple, bool put, na_mem_handle_t *remote,
                                   size_t size);

static void couple_open(struct couple *couple)
{
    end_open(&couple->owner, "na+sm", NULL);
    end_open(&couple->user, "na+sm", NULL);
    couple->peer = end_lookup(&couple->user, &couple->owner);
    couple->exposed = malloc(8 * 1024 * 1024);
    couple->local = calloc(1, 8 * 1024 * 1024);
    memset(couple->exposed, 'e', 8 * 1024 * 1024);
    couple->local_mem = mem_open(&couple->user, couple->local, 8 * 1024 * 1024, NA_MEM_READWRITE);
}

static void couple_close(struct couple *couple)
{
    mem_close(&couple->user, couple->local_mem);
    NA_Addr_free(couple->user.na_class, couple->peer);
    end_close(&couple->user);
    end_close(&couple->owner);
    free(couple->exposed);
    free(couple->local);
}

/* Returns the owner's handle as the user has it. */
static na_mem_handle_t *couple_pass(struct couple *couple, na_mem_handle_t *mem)
{
    return sm_mem_pass(&couple->owner, &couple->user, mem);
}

static na_return_t couple_get(struct couple *couple, na_mem_handle_t *remote, size_t size)
{
    return couple_transfer(couple, false, remote, size);
}

static na_return_t couple_transfer(struct couple *couple, bool put, na_mem_handle_t *remote,
                                   size_t size)
{
    return sm_transfer(&couple->user, &couple->owner, couple->peer, put, couple->local_mem, remote,
                       size);
}

/* Called once by the next process_vm_readv(), after it has copied. */
static void (*after_copy)(void);

SM_TEST_EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *local,
                                        unsigned long local_count, const struct iovec *remote,
                                        unsigned long remote_count, unsigned long flags);

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                         const struct iovec *remote, unsigned long remote_count,
                         unsigned long flags)
{
    void (*after)(void) = after_copy;
    ssize_t ret =
        syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);

    after_copy = NULL;
    if (after != NULL)
        after();
    return ret;
}

/* Called once by the next process_vm_writev(), before it copies. */
static void (*before_write)(void);

SM_TEST_EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *local,
                                         unsigned long local_count, const struct iovec *remote,
                                         unsigned long remote_count, unsigned long flags);

ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                          const struct iovec *remote, unsigned long remote_count,
                          unsigned long flags)
{
    void (*before)(void) = before_write;

    before_write = NULL;
    if (before != NULL)
        before();
    return syscall(SYS_process_vm_writev, pid, local, local_count, remote, remote_count, flags);
}

static bool no_random;

SM_TEST_EXPORT ssize_t getrandom(void *buf, size_t size, unsigned flags);

ssize_t getrandom(void *buf, size_t size, unsigned flags)
{
    if (no_random) {
        errno = ENOSYS;
        return -1;
    }
    return syscall(SYS_getrandom, buf, size, flags);
}

/* Reads the key of a handle with one segment: it is 32 bytes behind the start of the region. */
static void handle_key(struct couple *couple, const void *memory, uint64_t key[2])
{
    na_mem_handle_t *mem =
        mem_open(&couple->owner, (void *) (uintptr_t) memory, 8, NA_MEM_READ_ONLY);
    size_t size = NA_Mem_handle_get_serialize_size(couple->owner.na_class, mem);
    uint8_t packed[512];

    assert_int_equal(NA_Mem_handle_serialize(couple->owner.na_class, packed, size, mem),
                     NA_SUCCESS);
    memcpy(key, packed + size - KIT_REGION_PACKED + 32, 16);
    mem_close(&couple->owner, mem);
}

#define KEYS 200

/* Each bit of the keys varies, and no difference between keys, nor a multiple of it, recurs. */
static void keys_say_nothing_about_each_other(void **state)
{
    uint64_t keys[KEYS][2], ones[2] = {0}, zeros[2] = {0};
    struct couple couple;

    (void) state;
    couple_open(&couple);
    for (int i = 0; i < KEYS; i++) {
        handle_key(&couple, couple.exposed, keys[i]);
        for (int word = 0; word < 2; word++) {
            ones[word] |= keys[i][word];
            zeros[word] |= ~keys[i][word];
        }
    }
    for (int word = 0; word < 2; word++) {
        assert_true(ones[word] == UINT64_MAX);
        assert_true(zeros[word] == UINT64_MAX);
        for (int i = 3; i < KEYS; i++) {
            uint64_t step = keys[i][word] - keys[i - 1][word];
            uint64_t before_it = keys[i - 1][word] - keys[i - 2][word];

            assert_true(step != before_it);
            assert_true(step != before_it * UINT64_C(6364136223846793005));
        }
    }
    couple_close(&couple);
    check_clean();
}

static void no_random_numbers_is_an_error(void **state)
{
    na_mem_handle_t *mem, *handles[64];
    struct couple couple;
    na_return_t ret = NA_SUCCESS;
    char text[1024];
    int count = 0;

    (void) state;
    couple_open(&couple);
    sm_log_catch("error");
    no_random = true;
    while (ret == NA_SUCCESS && count < 64) { /* some keys were drawn in advance */
        assert_int_equal(NA_Mem_handle_create(couple.owner.na_class, couple.exposed, 8,
                                              NA_MEM_READWRITE, &handles[count]),
                         NA_SUCCESS);
        ret = NA_Mem_register(couple.owner.na_class, handles[count++], NA_MEM_TYPE_HOST, 0);
    }
    no_random = false;
    sm_log_caught(text, sizeof(text));
    assert_int_equal(ret, NA_IO_ERROR);
    assert_non_null(strstr(text, "no random numbers"));
    while (count-- > 0)
        NA_Mem_handle_free(couple.owner.na_class, handles[count]);
    mem = mem_open(&couple.owner, couple.exposed, 8, NA_MEM_READ_ONLY);
    mem_close(&couple.owner, mem);
    couple_close(&couple);
    check_clean();
}

/* Recomputes the digest in the last 8 bytes of the region, which only protects against accidental
 * damage. */
static void forge_digest(uint8_t *handle, size_t size)
{
    uint64_t digest = 0;

    memcpy(handle + KIT_REGION_PACKED - sizeof(digest), &digest, sizeof(digest));
    digest = htole64(kit_digest_add(KIT_DIGEST_NONE, handle, size));
    memcpy(handle + KIT_REGION_PACKED - sizeof(digest), &digest, sizeof(digest));
}

/* Flips each bit of the transport's part of a handle in turn. */
static void altered_handles_are_refused(void **state)
{
    uint8_t packed[sizeof(((struct rma *) 0)->packed)];
    na_mem_handle_t *whole;
    struct rma rma;
    const uint8_t *at;
    uint64_t sum;
    size_t first;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 3), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    sum = rma_remote_sum(&rma);
    at = memmem(rma.packed, rma.packed_size, "KARG", 4);
    assert_non_null(at);
    first = (size_t) (at - rma.packed);
    whole = rma.remote_mem;
    NA_Set_log_level("none");
    for (size_t bit = 8 * first; bit < 8 * rma.packed_size; bit++) {
        memcpy(packed, rma.packed, rma.packed_size);
        packed[bit / 8] ^= (uint8_t) (1u << (bit % 8));
        forge_digest(packed + first, rma.packed_size - first);
        if (memcmp(packed, rma.packed, rma.packed_size) == 0 || /* a bit of the digest itself */
            NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, packed, rma.packed_size) !=
                NA_SUCCESS)
            continue;
        for (int put = 0; put < 2; put++) {
            na_return_t ret = rma_transfer(&rma, put, 0, 0, 1);

            assert_true(ret == NA_PERMISSION || ret == NA_INVALID_ARG);
        }
        NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    }
    NA_Set_log_level("warning");
    rma.remote_mem = whole;
    assert_int_equal(rma_remote_sum(&rma), sum);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    rma_close(&rma, true);
    check_clean();
}

/* The transport checks its own copy of the access flags, not the core's, which allows more. */
static void the_transport_looks_at_its_own_flags(void **state)
{
    uint8_t packed[sizeof(((struct rma *) 0)->packed)];
    struct rma rma;

    (void) state;
    for (int put = 0; put < 2; put++) {
        assert_int_equal(
            rma_open(&rma, "plain", put ? NA_MEM_READ_ONLY : NA_MEM_WRITE_ONLY, BYTES, 1), 0);
        memcpy(packed, rma.packed, rma.packed_size);
        assert_memory_equal(packed, "NM", 2);
        packed[3] = NA_MEM_READWRITE;
        NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
        assert_int_equal(
            NA_Mem_handle_deserialize(rma.end.na_class, &rma.remote_mem, packed, rma.packed_size),
            NA_SUCCESS);
        assert_int_equal(rma_transfer(&rma, put, 0, 0, 1), NA_PERMISSION);
        assert_int_equal(rma_transfer(&rma, !put, 0, 0, 1), NA_SUCCESS);
        rma_close(&rma, true);
    }
    check_clean();
}

static void deregistered_memory_is_refused(void **state)
{
    na_mem_handle_t *stale;
    uint8_t reply[64];
    size_t size = sizeof(reply);
    struct rma rma;

    (void) state;
    assert_int_equal(rma_open(&rma, "plain", NA_MEM_READWRITE, BYTES, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    assert_int_equal(end_command(&rma.end, rma.peer, PEER_HIDE, 0, 0, 0, reply, &size), NA_SUCCESS);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_PERMISSION);
    assert_int_equal(rma_transfer(&rma, true, 0, 0, BYTES), NA_PERMISSION);
    stale = rma.remote_mem;
    rma.remote_mem = NULL;
    assert_int_equal(rma_expose(&rma, NA_MEM_READWRITE, 1), 0);
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_SUCCESS);
    NA_Mem_handle_free(rma.end.na_class, rma.remote_mem);
    rma.remote_mem = stale; /* the new registration has the same place in the table */
    assert_int_equal(rma_transfer(&rma, false, 0, 0, BYTES), NA_PERMISSION);
    rma_close(&rma, true);
    check_clean();
}

static struct couple overlapped;
static na_mem_handle_t *overlapped_mem;

static void deregister_now(void)
{
    assert_int_equal(NA_Mem_deregister(overlapped.owner.na_class, overlapped_mem), NA_SUCCESS);
}

/* The memory is deregistered within the last piece of a get, or between two pieces of a long
 * one. */
static void deregistration_during_a_get_is_noticed(void **state)
{
    static const size_t sizes[] = {4096, 8 * 1024 * 1024};

    (void) state;
    couple_open(&overlapped);
    for (int i = 0; i < 2; i++) {
        na_mem_handle_t *remote;

        overlapped_mem =
            mem_open(&overlapped.owner, overlapped.exposed, sizes[i], NA_MEM_READ_ONLY);
        remote = couple_pass(&overlapped, overlapped_mem);
        assert_int_equal(couple_get(&overlapped, remote, sizes[i]), NA_SUCCESS);
        after_copy = deregister_now;
        assert_int_equal(couple_get(&overlapped, remote, sizes[i]), NA_PERMISSION);
        assert_null(after_copy);
        NA_Mem_handle_free(overlapped.user.na_class, remote);
        NA_Mem_handle_free(overlapped.owner.na_class, overlapped_mem);
    }
    couple_close(&overlapped);
    check_clean();
}

static pthread_t withdrawer;
static _Atomic bool is_withdrawing, is_withdrawn;
static bool was_withdrawn;

static void *withdraw(void *arg)
{
    atomic_store(&is_withdrawing, true);
    deregister_now();
    atomic_store(&is_withdrawn, true);
    return arg;
}

/* Called in the middle of a put: gives the owner time to deregister its memory. */
static void withdraw_meanwhile(void)
{
    assert_int_equal(pthread_create(&withdrawer, NULL, withdraw, NULL), 0);
    while (!atomic_load(&is_withdrawing))
        (void) usleep(1000);
    for (int i = 0; i < 200 && !atomic_load(&is_withdrawn); i++)
        (void) usleep(1000);
    was_withdrawn = atomic_load(&is_withdrawn);
}

/* Deregistration waits for a put in progress, since the memory may be reused afterwards. */
static void deregistration_waits_for_a_put(void **state)
{
    na_mem_handle_t *remote;

    (void) state;
    couple_open(&overlapped);
    overlapped_mem = mem_open(&overlapped.owner, overlapped.exposed, BYTES, NA_MEM_READWRITE);
    remote = couple_pass(&overlapped, overlapped_mem);
    assert_int_equal(couple_transfer(&overlapped, true, remote, BYTES), NA_SUCCESS);
    before_write = withdraw_meanwhile;
    assert_int_equal(couple_transfer(&overlapped, true, remote, BYTES), NA_PERMISSION);
    assert_int_equal(pthread_join(withdrawer, NULL), 0);
    assert_false(was_withdrawn);
    assert_true(atomic_load(&is_withdrawn));
    NA_Mem_handle_free(overlapped.user.na_class, remote);
    NA_Mem_handle_free(overlapped.owner.na_class, overlapped_mem);
    couple_close(&overlapped);
    check_clean();
}

/* The parameters of the process that is killed. */
struct victim {
    char address[128];
    uint8_t packed[512];
    size_t size;
};

static void die_now(void)
{
    (void) raise(SIGKILL);
}

static int put_and_die(int from)
{
    static uint8_t bytes[BYTES];
    struct victim victim;
    na_mem_handle_t *remote, *local;
    struct event event = {0};
    na_addr_t *peer;
    struct end end;

    if (read(from, &victim, sizeof(victim)) != (ssize_t) sizeof(victim))
        return 1;
    end_open(&end, "na+sm", NULL);
    local = mem_open(&end, bytes, BYTES, NA_MEM_READ_ONLY);
    if (NA_Addr_lookup(end.na_class, victim.address, &peer) != NA_SUCCESS ||
        NA_Mem_handle_deserialize(end.na_class, &remote, victim.packed, victim.size) != NA_SUCCESS)
        return 2;
    before_write = die_now;
    (void) NA_Put(end.na_class, end.context, event_callback, &event, local, 0, remote, 0, BYTES,
                  peer, 0, NA_Op_create(end.na_class, NA_OP_SINGLE));
    return 3;
}

/* Deregistration does not wait for the put of a killed process, also while that is a zombie. */
static void a_put_that_dies_is_not_waited_for(void **state)
{
    uint8_t *memory = calloc(1, BYTES);
    struct victim victim = {0};
    siginfo_t info = {0};
    na_mem_handle_t *mem;
    struct end end;
    uint64_t from;
    int fds[2];
    pid_t pid;

    (void) state;
    assert_int_equal(pipe(fds), 0);
    pid = fork();
    if (pid == 0)
        _exit(put_and_die(fds[0]));
    assert_true(pid > 0);
    end_open(&end, "na+sm", NULL);
    end_address(&end, victim.address, sizeof(victim.address));
    mem = mem_open(&end, memory, BYTES, NA_MEM_READWRITE);
    victim.size = NA_Mem_handle_get_serialize_size(end.na_class, mem);
    assert_int_equal(NA_Mem_handle_serialize(end.na_class, victim.packed, victim.size, mem),
                     NA_SUCCESS);
    assert_int_equal(write(fds[1], &victim, sizeof(victim)), sizeof(victim));
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(info.si_code, CLD_KILLED);
    from = now_ms();
    mem_close(&end, mem);
    assert_in_range(now_ms() - from, 0, TEST_DEATH_MS);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void) close(fds[0]);
    (void) close(fds[1]);
    end_close(&end);
    free(memory);
    assert_int_equal(teardown_clean(NULL), 0);
}

/* The table grows, and freed places are reused. */
static void thousands_of_registrations_work(void **state)
{
    enum {
        COUNT = 5000
    };
    na_mem_handle_t **mems = calloc(COUNT, sizeof(*mems));
    struct couple couple;

    (void) state;
    couple_open(&couple);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            couple.exposed[i] = (uint8_t) (i * 7 + round);
            mems[i] = mem_open(&couple.owner, couple.exposed + i, 1, NA_MEM_READ_ONLY);
        }
        for (int i = 0; i < COUNT; i++) {
            na_mem_handle_t *remote = couple_pass(&couple, mems[i]);

            assert_int_equal(couple_get(&couple, remote, 1), NA_SUCCESS);
            assert_int_equal(couple.local[0], (uint8_t) (i * 7 + round));
            mem_close(&couple.owner, mems[i]);
            if (i % 100 == 0)
                NA_Set_log_level("none");
            if (i % 100 == 0)
                assert_int_equal(couple_get(&couple, remote, 1), NA_PERMISSION);
            NA_Set_log_level("warning");
            NA_Mem_handle_free(couple.user.na_class, remote);
        }
    }
    couple_close(&couple);
    free(mems);
    check_clean();
}

/* A file size limit keeps the table of registrations from growing: the target itself checks what
 * does not fit the table. */
static int live_without_room(void *arg)
{
    enum {
        COUNT = SM_TABLE_FIRST + 2
    };
    static na_mem_handle_t *mems[COUNT];
    struct rlimit limit;
    struct couple couple;
    struct stat status;
    char address[128], text[4096];
    int fd;

    (void) arg;
    couple_open(&couple);
    mems[0] = mem_open(&couple.owner, couple.exposed, BYTES, NA_MEM_READ_ONLY);
    mems[1] = couple_pass(&couple, mems[0]);
    TEST_REQUIRE(couple_get(&couple, mems[1], BYTES) == NA_SUCCESS);
    NA_Mem_handle_free(couple.user.na_class, mems[1]);
    TEST_REQUIRE(end_send(&couple.user, couple.peer, "x", 1, 1, true) == NA_SUCCESS);
    end_address(&couple.owner, address, sizeof(address));
    fd = sm_memory_of(address);
    TEST_REQUIRE(fstat(fd, &status) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0);
    (void) close(fd);
    limit.rlim_cur = (rlim_t) status.st_size;
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    sm_log_catch("warning");
    for (int i = 1; i < COUNT; i++)
        mems[i] = mem_open(&couple.owner, couple.exposed, BYTES, NA_MEM_READ_ONLY);
    sm_log_caught(text, sizeof(text));
    TEST_REQUIRE(strstr(text, "more than 512 registrations") != NULL);
    limit.rlim_cur = limit.rlim_max; /* the ring for the answers has to grow */
    TEST_REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    for (int i = 0; i < COUNT; i++) {
        na_mem_handle_t *remote = couple_pass(&couple, mems[i]);
        na_return_t ret;

        TEST_REQUIRE(couple_get(&couple, remote, BYTES) == NA_SUCCESS);
        TEST_REQUIRE(couple.local[BYTES - 1] == 'e');
        mem_close(&couple.owner, mems[i]);
        NA_Set_log_level("none");
        ret = couple_get(&couple, remote, BYTES);
        NA_Set_log_level("warning");
        TEST_REQUIRE(ret == NA_PERMISSION);
        NA_Mem_handle_free(couple.user.na_class, remote);
    }
    couple_close(&couple);
    return 0;
}

static void without_room_in_the_table_transfers_are_copied(void **state)
{
    (void) state;
    assert_int_equal(run_in_child(live_without_room, NULL), 0);
    check_clean();
}

static struct couple forked;

static int clean_up_in_child(void *arg)
{
    na_mem_handle_t *mem = arg;

    (void) NA_Mem_deregister(forked.owner.na_class, mem);
    NA_Mem_handle_free(forked.owner.na_class, mem);
    (void) NA_Context_destroy(forked.owner.na_class, forked.owner.context);
    (void) NA_Finalize(forked.owner.na_class);
    return 0;
}

/* A forked child shares the table with its parent. Deregistering the inherited memory in the child
 * has no effect on the parent. */
static void a_forked_child_withdraws_nothing(void **state)
{
    na_mem_handle_t *mem, *remote;

    (void) state;
    couple_open(&forked);
    mem = mem_open(&forked.owner, forked.exposed, BYTES, NA_MEM_READ_ONLY);
    remote = couple_pass(&forked, mem);
    assert_int_equal(couple_get(&forked, remote, BYTES), NA_SUCCESS);
    assert_int_equal(run_in_child(clean_up_in_child, mem), 0);
    assert_int_equal(couple_get(&forked, remote, BYTES), NA_SUCCESS);
    assert_int_equal(end_send(&forked.user, forked.peer, "x", 1, 1, true), NA_SUCCESS);
    NA_Mem_handle_free(forked.user.na_class, remote);
    mem_close(&forked.owner, mem);
    couple_close(&forked);
    check_clean();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_say_nothing_about_each_other),
        cmocka_unit_test(no_random_numbers_is_an_error),
        cmocka_unit_test(altered_handles_are_refused),
        cmocka_unit_test(the_transport_looks_at_its_own_flags),
        cmocka_unit_test(deregistered_memory_is_refused),
        cmocka_unit_test(deregistration_during_a_get_is_noticed),
        cmocka_unit_test(deregistration_waits_for_a_put),
        cmocka_unit_test(a_put_that_dies_is_not_waited_for),
        cmocka_unit_test(thousands_of_registrations_work),
        cmocka_unit_test(without_room_in_the_table_transfers_are_copied),
        cmocka_unit_test(a_forked_child_withdraws_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
