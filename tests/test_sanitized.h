/* SPDX-License-Identifier: BSD-3-Clause */
/* Sanitizers own malloc and take memory and time that say nothing about ours. */

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
