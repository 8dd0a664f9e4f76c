/* SPDX-License-Identifier: BSD-3-Clause */
/* TEST_SANITIZED is 1 under a sanitizer, which replaces malloc and uses additional memory and
 * time, so tests do less there, and do not check memory or time. */

#ifndef TESTS_TEST_SANITIZED_H
#define TESTS_TEST_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#    define TEST_SANITIZED 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#        define TEST_SANITIZED 1
#    endif
#endif
#ifndef TEST_SANITIZED
#    define TEST_SANITIZED 0
#endif

#endif /* TESTS_TEST_SANITIZED_H */
