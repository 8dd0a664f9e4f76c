/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A string that records whether it owns its memory.
 *
 * A string object is used by one thread at a time.
 */
#ifndef MERCURY_STRING_OBJECT_H
#define MERCURY_STRING_OBJECT_H

#include "mercury_types.h"

/* A NUL-terminated string, or none. */
typedef struct hg_string_object {
    char *data;    /* the string, may be NULL */
    bool is_const; /* was passed as const: must not be written */
    bool is_owned; /* hg_string_object_free() frees it by free() */
} hg_string_object_t;

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Set a string object to no string.
 *
 * \param string [OUT]      object
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if it is NULL
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC hg_return_t hg_string_object_init(hg_string_object_t *string);

/**
 * Set a string object to \a s.
 *
 * \param string [OUT]      object
 * \param s [IN]            string, not copied; may be NULL
 * \param is_owned [IN]     not 0: the object frees \a s by free(); 0: it stays the caller's
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if \a string is NULL
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC hg_return_t hg_string_object_init_char(hg_string_object_t *string, char *s,
                                                 uint8_t is_owned);

/**
 * Set a string object to the constant string \a s.
 *
 * \param string [OUT]      object
 * \param s [IN]            string, not copied; may be NULL
 * \param is_owned [IN]     not 0: the object frees \a s by free(); 0: it stays the caller's
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if \a string is NULL
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC hg_return_t hg_string_object_init_const_char(hg_string_object_t *string, const char *s,
                                                       uint8_t is_owned);

/**
 * Free the string if the object owns it, and set the object to no string.
 *
 * \param string [IN,OUT]   object
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if it is NULL
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC hg_return_t hg_string_object_free(hg_string_object_t *string);

/**
 * Copy a string object; the copy owns its string.
 *
 * \param string [IN]       object to copy
 * \param new_string [OUT]  the copy, to be freed by hg_string_object_free()
 *
 * \return HG_SUCCESS; HG_INVALID_ARG if \a new_string is NULL; HG_NOMEM
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC hg_return_t hg_string_object_dup(hg_string_object_t string,
                                           hg_string_object_t *new_string);

/**
 * Replace the string by \a s. The owner stays the same.
 *
 * \param string [IN,OUT]   object
 * \param s [IN]            string, not copied; may be NULL
 *
 * \return previous string, which the caller owns if the object did; NULL if there was none or \a
 * string is NULL
 *
 * One thread at a time for a string. \since 1.0
 */
HG_PUBLIC char *hg_string_object_swap(hg_string_object_t *string, char *s);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_STRING_OBJECT_H */
