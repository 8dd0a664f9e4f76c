/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The macros of the public headers, in a C++ program that allows neither old-style nor useless
 * casts; and HG_PROC_TYPE(), which copies objects of any type.
 */
#include "macros_support.h"

#include "mercury.h"
#include "mercury_bulk.h"
#include "mercury_macros.h"
#include "mercury_proc_string.h"
#include "mercury_request.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdlib>

extern "C" {
#include <cmocka.h>
}

struct shape {
    double size[3];
    uint8_t color;
};

typedef struct {
    uint64_t cookie;
} tag_t;

MERCURY_GEN_STRUCT_PROC(tag_t, ((uint64_t) (cookie)))
MERCURY_GEN_PROC(named_t, ((hg_const_string_t) (name))((tag_t) (tag)))
/* A type that is not used must not cause a warning. */
MERCURY_GEN_PROC(unused_t, ((tag_t) (tag)))

static hg_return_t proc_shape(hg_proc_t proc, void *data)
{
    hg_return_t ret = HG_SUCCESS;

    HG_PROC_TYPE(proc, struct shape, data, done, ret);
done:
    return ret;
}

/* The same as proc_shape(), step by step. */
static hg_return_t proc_shape_by_hand(hg_proc_t proc, struct shape *shape)
{
    hg_return_t ret = HG_SUCCESS;

    if (hg_proc_get_op(proc) == HG_FREE)
        return HG_SUCCESS;
    HG_PROC_CHECK_SIZE(proc, sizeof(*shape), done, ret);
    if (hg_proc_get_op(proc) == HG_ENCODE)
        HG_PROC_TYPE_ENCODE(proc, shape, sizeof(*shape));
    else
        HG_PROC_TYPE_DECODE(proc, shape, sizeof(*shape));
    HG_PROC_UPDATE(proc, sizeof(*shape));
    HG_PROC_CHECKSUM_UPDATE(proc, shape, sizeof(*shape));
done:
    return ret;
}

static void objects_without_a_routine_are_copied(void **state)
{
    char buf[sizeof(struct shape)];
    struct shape in, out;
    hg_proc_t proc;

    static_cast<void>(state);
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        memset(&in, by_hand, sizeof(in));
        memset(&out, 0xff, sizeof(out));
        in.size[1] = 2.5;
        in.color = 7;
        proc = macros_proc(buf, sizeof(buf), HG_ENCODE, HG_PROC_ENCODING_RAW);
        assert_int_equal(proc_shape(proc, &in), HG_SUCCESS);
        assert_int_equal(hg_proc_get_size_used(proc), sizeof(in));
        assert_memory_equal(buf, &in, sizeof(in));
        proc = macros_proc(buf, sizeof(buf), HG_DECODE, HG_PROC_ENCODING_RAW);
        assert_int_equal(by_hand ? proc_shape_by_hand(proc, &out) : proc_shape(proc, &out),
                         HG_SUCCESS);
        assert_memory_equal(&out, &in, sizeof(in));
        assert_int_equal(proc_shape(proc, &out), HG_OVERFLOW);
        proc = macros_proc(nullptr, 0, HG_FREE, HG_PROC_ENCODING_RAW);
        assert_int_equal(proc_shape(proc, &out), HG_SUCCESS);
        assert_memory_equal(&out, &in, sizeof(in));
    }
}

static void null_values_are_null(void **state)
{
    hg_op_id_t *ignore = HG_OP_ID_IGNORE;
    hg_core_op_id_t *core_ignore = HG_CORE_OP_ID_IGNORE;

    static_cast<void>(state);
    assert_true(HG_ADDR_NULL == nullptr && HG_HANDLE_NULL == nullptr && HG_BULK_NULL == nullptr);
    assert_true(HG_PROC_NULL == nullptr && HG_OP_ID_NULL == nullptr && ignore != nullptr);
    assert_true(HG_CORE_ADDR_NULL == nullptr && HG_CORE_HANDLE_NULL == nullptr);
    assert_true(HG_CORE_OP_ID_NULL == nullptr && core_ignore != nullptr);
    assert_int_equal(MERCURY_REGISTER(nullptr, "x", named_t, void, nullptr), 0);
}

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_without_a_routine_are_copied),
        cmocka_unit_test(null_values_are_null),
    };

    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
