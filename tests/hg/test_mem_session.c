/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that only granted sessions may access (mem_per_session): an owner and two users with the
 * same key. A user may access the owner's memory if the owner itself sent it the descriptor, and
 * not otherwise.
 */
#include "hg_fixture.h"

#include "mercury_bulk.h"
#include "mercury_proc_bulk.h"
#include "na_ext.h"

#define SIZE 100000u
#define KEY  "open sesame"

enum {
    RPC_TAKE = 20, /* input: a descriptor, which the target keeps */
    RPC_GIVE = 21  /* output: a descriptor of the target's own memory */
};

/* A class, its memory, and the descriptor that it received. */
struct user {
    struct side side;
    uint8_t memory[SIZE];
    hg_bulk_t own; /* descriptor of `memory` */
    hg_bulk_t got;
    hg_addr_t owner; /* address of the owner in this class */
};

static struct {
    struct user owner, a, b;
    hg_addr_t a_addr, b_addr; /* addresses in the owner's class */
} fixture;

static void all_progress(void)
{
    side_progress(&fixture.owner.side);
    side_progress(&fixture.a.side);
    side_progress(&fixture.b.side);
}

static void wait_for(const struct outcome *outcome)
{
    const uint64_t end = now_ms() + WAIT_MS;

    while (atomic_load(&outcome->count) == 0 && now_ms() < end)
        all_progress();
    assert_int_equal(atomic_load(&outcome->count), 1);
}

static void keep(struct user *user, hg_bulk_t bulk)
{
    assert_int_equal(HG_Bulk_free(user->got), HG_SUCCESS);
    assert_int_equal(HG_Bulk_ref_incr(bulk), HG_SUCCESS);
    user->got = bulk;
}

static hg_return_t handle_take(hg_handle_t handle)
{
    struct user *user = HG_Registered_data(HG_Get_info(handle)->hg_class, RPC_TAKE);
    hg_bulk_t bulk = HG_BULK_NULL;

    assert_int_equal(HG_Get_input(handle, &bulk), HG_SUCCESS);
    keep(user, bulk);
    assert_int_equal(HG_Free_input(handle, &bulk), HG_SUCCESS);
    assert_int_equal(HG_Respond(handle, NULL, NULL, NULL), HG_SUCCESS);
    return HG_Destroy(handle);
}

static hg_return_t handle_give(hg_handle_t handle)
{
    struct user *user = HG_Registered_data(HG_Get_info(handle)->hg_class, RPC_GIVE);

    assert_int_equal(HG_Respond(handle, NULL, NULL, &user->own), HG_SUCCESS);
    return HG_Destroy(handle);
}

static void user_open(struct user *user)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
    const hg_size_t size = SIZE;
    void *memory = user->memory;
    hg_class_t *c;

    info.na_init_info.auth_key = KEY;
    info.mem_per_session = true;
    side_open(&user->side, &info);
    c = user->side.hg_class;
    assert_true(NA_Class_has_capability(HG_Class_get_na(c), "memory_per_session"));
    assert_int_equal(HG_Register(c, RPC_TAKE, hg_proc_hg_bulk_t, NULL, handle_take), HG_SUCCESS);
    assert_int_equal(HG_Register(c, RPC_GIVE, NULL, hg_proc_hg_bulk_t, handle_give), HG_SUCCESS);
    assert_int_equal(HG_Register_data(c, RPC_TAKE, user, NULL), HG_SUCCESS);
    assert_int_equal(HG_Register_data(c, RPC_GIVE, user, NULL), HG_SUCCESS);
    assert_int_equal(HG_Bulk_create(c, 1, &memory, &size, HG_BULK_READWRITE, &user->own),
                     HG_SUCCESS);
}

static void user_close(struct user *user)
{
    for (int i = 0; i < 20; i++)
        all_progress();
    assert_int_equal(HG_Bulk_free(user->own), HG_SUCCESS);
    assert_int_equal(HG_Bulk_free(user->got), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(user->side.hg_class, user->owner), HG_SUCCESS);
    side_close(&user->side);
    memset(user, 0, sizeof(*user));
}

/*
 * Whether HG seals the RPCs: the transport does not prove the key then and cannot restrict memory
 * to sessions, so that opening is refused.
 */
static bool is_refused(void)
{
    const char *init = test_init_string();

    return strncmp(init, "na+", 3) == 0 || strncmp(init, "fault+", 6) == 0 ||
           strncmp(init, "loop", 4) == 0;
}

static int setup(void **state)
{
    (void) state;
    memset(&fixture, 0, sizeof(fixture));
    if (is_refused())
        return 0;
    user_open(&fixture.owner);
    user_open(&fixture.a);
    user_open(&fixture.b);
    fixture.a_addr = side_lookup(&fixture.owner.side, &fixture.a.side);
    fixture.b_addr = side_lookup(&fixture.owner.side, &fixture.b.side);
    fixture.a.owner = side_lookup(&fixture.a.side, &fixture.owner.side);
    fixture.b.owner = side_lookup(&fixture.b.side, &fixture.owner.side);
    return 0;
}

static int teardown(void **state)
{
    (void) state;
    if (is_refused())
        return 0;
    for (int i = 0; i < 20; i++)
        all_progress();
    assert_int_equal(HG_Addr_free(fixture.owner.side.hg_class, fixture.a_addr), HG_SUCCESS);
    assert_int_equal(HG_Addr_free(fixture.owner.side.hg_class, fixture.b_addr), HG_SUCCESS);
    user_close(&fixture.a);
    user_close(&fixture.b);
    user_close(&fixture.owner);
    return 0;
}

static void check_opened(void)
{
    if (is_refused())
        test_skip("this transport keeps no memory to sessions, and refuses to open");
}

/* Forward, and wait for the end; returns the result. */
static hg_return_t call(struct user *from, hg_addr_t to, hg_id_t id, void *in,
                        hg_handle_t *handle_p)
{
    struct outcome outcome = {0};
    hg_handle_t handle;

    assert_int_equal(HG_Create(from->side.context, to, id, &handle), HG_SUCCESS);
    assert_int_equal(HG_Forward(handle, outcome_set, &outcome, in), HG_SUCCESS);
    wait_for(&outcome);
    if (handle_p != NULL)
        *handle_p = handle;
    else
        assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    return outcome.ret;
}

static void hand(struct user *from, hg_addr_t to, hg_bulk_t bulk)
{
    assert_int_equal(call(from, to, RPC_TAKE, &bulk, NULL), HG_SUCCESS);
}

/*
 * The user gets a copy of the descriptor without an RPC of the owner, as if it had found the bytes
 * somewhere.
 */
static void find(struct user *user, hg_bulk_t bulk)
{
    uint8_t bytes[4096];
    hg_size_t size = HG_Bulk_get_serialize_size(bulk, 0);
    hg_bulk_t copy;

    assert_true(size <= sizeof(bytes));
    assert_int_equal(HG_Bulk_serialize(bytes, sizeof(bytes), 0, bulk), HG_SUCCESS);
    assert_int_equal(HG_Bulk_deserialize(user->side.hg_class, &copy, bytes, size), HG_SUCCESS);
    keep(user, copy);
    assert_int_equal(HG_Bulk_free(copy), HG_SUCCESS);
}

/*
 * Push to the owner's memory and pull from it with the received descriptor; each transfer ends with
 * `expected`, and moves the bytes only if that is HG_SUCCESS.
 */
static void use(struct user *user, hg_return_t expected)
{
    for (int op = HG_BULK_PUSH; op <= HG_BULK_PULL; op++) {
        struct user *owner = &fixture.owner;
        struct outcome outcome = {0};

        memset(user->memory, 'u' + op, SIZE);
        memset(owner->memory, 'o' + op, SIZE);
        assert_int_equal(HG_Bulk_transfer(user->side.context, outcome_set, &outcome,
                                          (hg_bulk_op_t) op, user->owner, user->got, 0, user->own,
                                          0, SIZE, HG_OP_ID_IGNORE),
                         HG_SUCCESS);
        wait_for(&outcome);
        assert_int_equal(outcome.ret, expected);
        if (expected == HG_SUCCESS) {
            assert_memory_equal(user->memory, owner->memory, SIZE);
            assert_int_equal(user->memory[SIZE / 2], op == HG_BULK_PUSH ? 'u' + op : 'o' + op);
        } else {
            assert_int_equal(user->memory[0], 'u' + op);
            assert_int_equal(owner->memory[0], 'o' + op);
            assert_int_equal(owner->memory[SIZE - 1], 'o' + op);
        }
    }
}

/* The owner's transport counts the accesses that it refused. */
static uint64_t refusals(void)
{
    static const char name[] = "_refused_memory";
    struct na_counter counters[64];
    size_t count = 64;

    assert_int_equal(
        NA_Class_get_counters(HG_Class_get_na(fixture.owner.side.hg_class), counters, &count),
        NA_SUCCESS);
    for (size_t i = 0; i < count; i++) {
        const char *end = strstr(counters[i].name, name);

        if (end != NULL && strcmp(end, name) == 0)
            return counters[i].value;
    }
    fail_msg("there is no counter of refused memory");
    return 0;
}

static void a_descriptor_is_of_use_to_whom_it_was_handed(void **state)
{
    (void) state;
    check_opened();
    hand(&fixture.owner, fixture.a_addr, fixture.owner.own);
    use(&fixture.a, HG_SUCCESS);
    find(&fixture.b, fixture.owner.own);
    use(&fixture.b, HG_PERMISSION);
    assert_true(refusals() >= 2);
    use(&fixture.a, HG_SUCCESS);
    hand(&fixture.owner, fixture.b_addr, fixture.owner.own);
    use(&fixture.b, HG_SUCCESS);
    use(&fixture.a, HG_SUCCESS);
}

/* A response grants access as well as a request. */
static void an_output_hands_it_over(void **state)
{
    hg_bulk_t bulk = HG_BULK_NULL;
    hg_handle_t handle;

    (void) state;
    check_opened();
    assert_int_equal(call(&fixture.a, fixture.a.owner, RPC_GIVE, NULL, &handle), HG_SUCCESS);
    assert_int_equal(HG_Get_output(handle, &bulk), HG_SUCCESS);
    keep(&fixture.a, bulk);
    assert_int_equal(HG_Free_output(handle, &bulk), HG_SUCCESS);
    assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
    find(&fixture.b, fixture.owner.own);
    use(&fixture.b, HG_PERMISSION);
    use(&fixture.a, HG_SUCCESS);
}

/*
 * A user that passes the descriptor on grants nothing. Only the owner can grant access, by an RPC
 * or by HG_Bulk_grant().
 */
static void a_proxy_needs_the_owner(void **state)
{
    hg_addr_t b_at_a;

    (void) state;
    check_opened();
    assert_int_equal(HG_Bulk_bind(fixture.owner.own, fixture.owner.side.context), HG_SUCCESS);
    hand(&fixture.owner, fixture.a_addr, fixture.owner.own);
    b_at_a = side_lookup(&fixture.a.side, &fixture.b.side);
    hand(&fixture.a, b_at_a, fixture.a.got);
    use(&fixture.b, HG_PERMISSION);
    assert_int_equal(HG_Bulk_grant(fixture.a.got, b_at_a), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_grant(fixture.owner.own, fixture.b_addr), HG_SUCCESS);
    use(&fixture.b, HG_SUCCESS);
    use(&fixture.a, HG_SUCCESS);
    assert_int_equal(HG_Bulk_grant(HG_BULK_NULL, fixture.b_addr), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_grant(fixture.owner.own, HG_ADDR_NULL), HG_INVALID_ARG);
    assert_int_equal(HG_Bulk_grant(fixture.owner.own, b_at_a), HG_INVALID_ARG);
    assert_int_equal(HG_Addr_free(fixture.a.side.hg_class, b_at_a), HG_SUCCESS);
}

/* A class that the same process opens anew is another session, and needs a new grant. */
static void another_session_needs_it_anew(void **state)
{
    (void) state;
    check_opened();
    hand(&fixture.owner, fixture.a_addr, fixture.owner.own);
    use(&fixture.a, HG_SUCCESS);
    assert_int_equal(HG_Addr_free(fixture.owner.side.hg_class, fixture.a_addr), HG_SUCCESS);
    user_close(&fixture.a);
    user_open(&fixture.a);
    fixture.a.owner = side_lookup(&fixture.a.side, &fixture.owner.side);
    fixture.a_addr = side_lookup(&fixture.owner.side, &fixture.a.side);
    find(&fixture.a, fixture.owner.own);
    use(&fixture.a, HG_PERMISSION);
    hand(&fixture.owner, fixture.a_addr, fixture.owner.own);
    use(&fixture.a, HG_SUCCESS);
}

/* Inputs and outputs that do not fit a message need no grant, in both directions and to self. */
static void large_rpcs_go_on(void **state)
{
    struct user *users[] = {&fixture.owner, &fixture.a};

    (void) state;
    check_opened();
    for (int i = 0; i < 2; i++) {
        struct user *from = users[i];
        hg_addr_t self, to[2] = {i == 0 ? fixture.a_addr : fixture.a.owner, HG_ADDR_NULL};

        assert_int_equal(HG_Addr_self(from->side.hg_class, &self), HG_SUCCESS);
        to[1] = self;
        for (int k = 0; k < 2; k++) {
            hg_handle_t handle;
            struct blob in, out = {0};

            blob_make(&in, 300000, (uint8_t) (i + k));
            assert_int_equal(call(from, to[k], RPC_ECHO, &in, &handle), HG_SUCCESS);
            assert_int_equal(HG_Get_output(handle, &out), HG_SUCCESS);
            blob_check(&out, in.size, (uint8_t) (i + k));
            assert_int_equal(HG_Free_output(handle, &out), HG_SUCCESS);
            assert_int_equal(HG_Destroy(handle), HG_SUCCESS);
            free(in.data);
        }
        assert_int_equal(HG_Addr_free(from->side.hg_class, self), HG_SUCCESS);
    }
    assert_int_equal(refusals(), 0);
}

/* An owner that gets its own descriptor back may use it, whichever peer sent it. */
static void own_memory_needs_no_grant(void **state)
{
    (void) state;
    check_opened();
    hand(&fixture.owner, fixture.a_addr, fixture.owner.own);
    hand(&fixture.a, fixture.a.owner, fixture.a.got);
    assert_int_equal(HG_Addr_self(fixture.owner.side.hg_class, &fixture.owner.owner), HG_SUCCESS);
    {
        struct outcome outcome = {0};

        assert_int_equal(HG_Bulk_transfer(fixture.owner.side.context, outcome_set, &outcome,
                                          HG_BULK_PULL, fixture.owner.owner, fixture.owner.got, 0,
                                          fixture.owner.own, 0, SIZE, HG_OP_ID_IGNORE),
                         HG_SUCCESS);
        wait_for(&outcome);
        assert_int_equal(outcome.ret, HG_SUCCESS);
    }
}

static void it_is_refused_where_it_cannot_be_held(void **state)
{
    struct hg_init_info info = HG_INIT_INFO_INITIALIZER;

    (void) state;
    info.mem_per_session = true;
    assert_null(test_class_open(HG_TRUE, &info)); /* refused: there is no key */
    info.na_init_info.auth_key = KEY;
    if (is_refused())
        assert_null(test_class_open(HG_TRUE, &info));
}

/*
 * A class over an endpoint that the program opened: HG refuses an endpoint without mem_per_session,
 * and accepts one that has it.
 */
static void an_endpoint_that_was_passed_has_to_hold_it(void **state)
{
    struct na_init_info na_info = NA_INIT_INFO_INITIALIZER;

    (void) state;
    check_opened();
    na_info.auth_key = KEY;
    for (int holds = 0; holds < 2; holds++) {
        struct hg_init_info info = HG_INIT_INFO_INITIALIZER;
        hg_class_t *hg_class;

        na_info.mem_per_session = holds != 0;
        info.na_class = NA_Initialize_opt2(
            test_init_string(), true, NA_VERSION(NA_VERSION_MAJOR, NA_VERSION_MINOR), &na_info);
        assert_non_null(info.na_class);
        info.na_init_info.auth_key = KEY;
        info.mem_per_session = true;
        hg_class =
            HG_Init_opt2(NULL, HG_TRUE, HG_VERSION(HG_VERSION_MAJOR, HG_VERSION_MINOR), &info);
        assert_int_equal(hg_class != NULL, holds);
        assert_int_equal(HG_Finalize(hg_class), HG_SUCCESS);
        assert_int_equal(NA_Finalize(info.na_class), NA_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_descriptor_is_of_use_to_whom_it_was_handed, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_output_hands_it_over, setup, teardown),
        cmocka_unit_test_setup_teardown(a_proxy_needs_the_owner, setup, teardown),
        cmocka_unit_test_setup_teardown(another_session_needs_it_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(large_rpcs_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(own_memory_needs_no_grant, setup, teardown),
        cmocka_unit_test(it_is_refused_where_it_cannot_be_held),
        cmocka_unit_test(an_endpoint_that_was_passed_has_to_hold_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
