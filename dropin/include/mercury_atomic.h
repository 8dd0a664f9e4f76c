/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic integers of 32 and 64 bits, by the atomic types of C11 or C++11.
 */
#ifndef MERCURY_ATOMIC_H
#define MERCURY_ATOMIC_H

#include "mercury_util_config.h"

/* The types, and where C and C++ have what belongs to them. */
#ifdef __cplusplus
#    include <atomic>
#    define HG_ATOMIC_STD(name) std::name
typedef std::atomic_int hg_atomic_int32_t;
typedef std::atomic_long hg_atomic_int64_t;
#else
#    include <stdatomic.h>
#    define HG_ATOMIC_STD(name) name
typedef atomic_int hg_atomic_int32_t;
typedef atomic_long hg_atomic_int64_t;
#endif

/* Acquire and release. */
#define HG_ATOMIC_BOTH HG_ATOMIC_STD(memory_order_acq_rel)

/* Initializer of an atomic integer. */
#ifdef __cplusplus
#    define HG_ATOMIC_VAR_INIT(x) \
        {                         \
            (x)                   \
        }
#else
#    define HG_ATOMIC_VAR_INIT(x) (x)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Give an atomic integer its first value. Nothing else uses it meanwhile.
 *
 * \param ptr [OUT]     atomic integer
 * \param value [IN]    value
 *
 * One thread, before others use the integer. \since 1.0
 */
static HG_UTIL_INLINE void hg_atomic_init32(hg_atomic_int32_t *ptr, int32_t value)
{
    HG_ATOMIC_STD(atomic_init)(ptr, value);
}

/**
 * Store a value, with release semantics.
 *
 * \param ptr [OUT]     atomic integer
 * \param value [IN]    value
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_atomic_set32(hg_atomic_int32_t *ptr, int32_t value)
{
    HG_ATOMIC_STD(atomic_store_explicit)(ptr, value, HG_ATOMIC_STD(memory_order_release));
}

/**
 * Load the value, with acquire semantics.
 *
 * \param ptr [IN]      atomic integer
 *
 * \return value
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_get32(const hg_atomic_int32_t *ptr)
{
    return HG_ATOMIC_STD(atomic_load_explicit)(ptr, HG_ATOMIC_STD(memory_order_acquire));
}

/**
 * Add one.
 *
 * \param ptr [IN,OUT]  atomic integer
 *
 * \return value after the addition
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_incr32(hg_atomic_int32_t *ptr)
{
    return HG_ATOMIC_STD(atomic_fetch_add_explicit)(ptr, 1, HG_ATOMIC_BOTH) + 1;
}

/**
 * Subtract one.
 *
 * \param ptr [IN,OUT]  atomic integer
 *
 * \return value after the subtraction
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_decr32(hg_atomic_int32_t *ptr)
{
    return HG_ATOMIC_STD(atomic_fetch_sub_explicit)(ptr, 1, HG_ATOMIC_BOTH) - 1;
}

/**
 * Combine bits with those of a value by OR.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_or32(hg_atomic_int32_t *ptr, int32_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_or_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Combine bits with those of a value by XOR.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_xor32(hg_atomic_int32_t *ptr, int32_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_xor_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Combine bits with those of a value by AND.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int32_t hg_atomic_and32(hg_atomic_int32_t *ptr, int32_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_and_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Replace the value if it is the expected one.
 *
 * \param ptr [IN,OUT]          atomic integer
 * \param compare_value [IN]    what is expected
 * \param swap_value [IN]       what to store then
 *
 * \return true if it was replaced, false if the value was another one
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE bool hg_atomic_cas32(hg_atomic_int32_t *ptr, int32_t compare_value,
                                           int32_t swap_value)
{
    int expected = compare_value;
    return HG_ATOMIC_STD(atomic_compare_exchange_strong_explicit)(
        ptr, &expected, swap_value, HG_ATOMIC_BOTH, HG_ATOMIC_STD(memory_order_acquire));
}

/**
 * Give an atomic integer its first value. Nothing else uses it meanwhile.
 *
 * \param ptr [OUT]     atomic integer
 * \param value [IN]    value
 *
 * One thread, before others use the integer. \since 1.0
 */
static HG_UTIL_INLINE void hg_atomic_init64(hg_atomic_int64_t *ptr, int64_t value)
{
    HG_ATOMIC_STD(atomic_init)(ptr, value);
}

/**
 * Store a value, with release semantics.
 *
 * \param ptr [OUT]     atomic integer
 * \param value [IN]    value
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_atomic_set64(hg_atomic_int64_t *ptr, int64_t value)
{
    HG_ATOMIC_STD(atomic_store_explicit)(ptr, value, HG_ATOMIC_STD(memory_order_release));
}

/**
 * Load the value, with acquire semantics.
 *
 * \param ptr [IN]      atomic integer
 *
 * \return value
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_get64(const hg_atomic_int64_t *ptr)
{
    return HG_ATOMIC_STD(atomic_load_explicit)(ptr, HG_ATOMIC_STD(memory_order_acquire));
}

/**
 * Add one.
 *
 * \param ptr [IN,OUT]  atomic integer
 *
 * \return value after the addition
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_incr64(hg_atomic_int64_t *ptr)
{
    return HG_ATOMIC_STD(atomic_fetch_add_explicit)(ptr, 1, HG_ATOMIC_BOTH) + 1;
}

/**
 * Subtract one.
 *
 * \param ptr [IN,OUT]  atomic integer
 *
 * \return value after the subtraction
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_decr64(hg_atomic_int64_t *ptr)
{
    return HG_ATOMIC_STD(atomic_fetch_sub_explicit)(ptr, 1, HG_ATOMIC_BOTH) - 1;
}

/**
 * Combine bits with those of a value by OR.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_or64(hg_atomic_int64_t *ptr, int64_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_or_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Combine bits with those of a value by XOR.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_xor64(hg_atomic_int64_t *ptr, int64_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_xor_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Combine bits with those of a value by AND.
 *
 * \param ptr [IN,OUT]  atomic integer
 * \param value [IN]    bits
 *
 * \return value before the operation
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int64_t hg_atomic_and64(hg_atomic_int64_t *ptr, int64_t value)
{
    return HG_ATOMIC_STD(atomic_fetch_and_explicit)(ptr, value, HG_ATOMIC_BOTH);
}

/**
 * Replace the value if it is the expected one.
 *
 * \param ptr [IN,OUT]          atomic integer
 * \param compare_value [IN]    what is expected
 * \param swap_value [IN]       what to store then
 *
 * \return true if it was replaced, false if the value was another one
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE bool hg_atomic_cas64(hg_atomic_int64_t *ptr, int64_t compare_value,
                                           int64_t swap_value)
{
    long expected = compare_value;
    return HG_ATOMIC_STD(atomic_compare_exchange_strong_explicit)(
        ptr, &expected, swap_value, HG_ATOMIC_BOTH, HG_ATOMIC_STD(memory_order_acquire));
}

/**
 * A barrier for loads and stores of both directions.
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void hg_atomic_fence(void)
{
    HG_ATOMIC_STD(atomic_thread_fence)(HG_ATOMIC_BOTH);
}

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_ATOMIC_H */
