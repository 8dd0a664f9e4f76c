/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checksums are equal on both sides, even if the buffers grew in different ways, and differ after
 * any change.
 */
#include "proc_fixture.h"

static const size_t widths[] = {[HG_CRC16] = 2, [HG_CRC32] = 4, [HG_CRC64] = 8};

static hg_return_t proc_two(hg_proc_t proc, void *data)
{
    uint64_t *values = data;
    hg_return_t ret = hg_proc_uint64_t(proc, &values[0]);

    return ret == HG_SUCCESS ? hg_proc_uint64_t(proc, &values[1]) : ret;
}

static void damage_is_noticed_at_every_byte(void **state)
{
    struct fixture fixture;
    uint64_t in[2] = {0x0123456789abcdef, 42};
    uint64_t out[2];
    uint8_t hash[8];

    (void) state;
    for (int width = HG_CRC16; width < HG_NOHASH; width++) {
        fixture_init(&fixture, HG_PROC_ENCODING_RAW, (hg_proc_hash_t) width);
        fixture_encode(&fixture, proc_two, in);
        assert_int_equal(hg_proc_checksum_get(&fixture.proc, hash, widths[width]), HG_SUCCESS);
        assert_int_equal(hg_proc_checksum_get(&fixture.proc, hash, widths[width] - 1), HG_OVERFLOW);
        for (size_t i = 0; i <= fixture.used; i++) {
            hg_return_t expected = i == fixture.used ? HG_SUCCESS : HG_CHECKSUM_ERROR;

            fixture.buf[i] = (char) (fixture.buf[i] ^ 0x10);
            (void) hg_proc_reset(&fixture.proc, fixture.buf, fixture.used, HG_DECODE);
            assert_int_equal(proc_two(&fixture.proc, out), HG_SUCCESS);
            assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
            assert_int_equal(hg_proc_checksum_verify(&fixture.proc, hash, widths[width]), expected);
            fixture.buf[i] = (char) (fixture.buf[i] ^ 0x10);
        }
        hash[0] = (uint8_t) (hash[0] + 1);
        assert_int_equal(hg_proc_checksum_verify(&fixture.proc, hash, widths[width]),
                         HG_CHECKSUM_ERROR);
    }
}

static void checksum_covers_the_extra_buffer(void **state)
{
    struct fixture fixture;
    uint64_t in[2] = {7, 8};
    uint8_t small[8];
    uint8_t large[8];

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_PORTABLE, HG_CRC64);
    fixture_encode(&fixture, proc_two, in);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, large, 8), HG_SUCCESS);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 3, HG_ENCODE);
    assert_int_equal(proc_two(&fixture.proc, in), HG_SUCCESS);
    assert_non_null(hg_proc_get_extra_buf(&fixture.proc));
    assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
    assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, small, 8), HG_SUCCESS);
    assert_memory_equal(small, large, 8);
    hg_proc_fini(&fixture.proc);
}

static void further_bytes_can_be_included(void **state)
{
    struct fixture fixture;
    uint64_t in[2] = {7, 8};
    char header[] = "header";
    uint8_t with[4];
    uint8_t without[4];

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_CRC32);
    fixture_encode(&fixture, proc_two, in);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, without, 4), HG_SUCCESS);
    for (int round = 0; round < 2; round++) {
        (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, round == 0 ? HG_ENCODE : HG_DECODE);
        hg_proc_checksum_update(&fixture.proc, header, sizeof(header));
        assert_int_equal(proc_two(&fixture.proc, in), HG_SUCCESS);
        assert_int_equal(hg_proc_flush(&fixture.proc), HG_SUCCESS);
        if (round == 0)
            assert_int_equal(hg_proc_checksum_get(&fixture.proc, with, 4), HG_SUCCESS);
    }
    assert_memory_not_equal(with, without, 4);
    assert_int_equal(hg_proc_checksum_verify(&fixture.proc, with, 4), HG_SUCCESS);
}

static void no_checksum_without_being_asked_for(void **state)
{
    struct fixture fixture;
    uint64_t in[2] = {7, 8};
    uint8_t hash[8];

    (void) state;
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_NOHASH);
    fixture_encode(&fixture, proc_two, in);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, hash, 8), HG_INVALID_ARG);
    fixture_init(&fixture, HG_PROC_ENCODING_RAW, HG_CRC32);
    (void) hg_proc_reset(&fixture.proc, fixture.buf, 16, HG_ENCODE);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, hash, 8), HG_INVALID_ARG);
    (void) hg_proc_flush(&fixture.proc);
    assert_int_equal(hg_proc_checksum_get(&fixture.proc, NULL, 8), HG_INVALID_ARG);
    assert_int_equal(hg_proc_checksum_verify(NULL, hash, 8), HG_INVALID_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damage_is_noticed_at_every_byte),
        cmocka_unit_test(checksum_covers_the_extra_buffer),
        cmocka_unit_test(further_bytes_can_be_included),
        cmocka_unit_test(no_checksum_without_being_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
