/* SPDX-License-Identifier: BSD-3-Clause */
/* Compiler attributes under portable names. Included by every configuration header; clients may use
 * the HG_ATTR_* names in their own declarations. For a compiler without an attribute the macro is
 * empty if the attribute is only advice. */

#ifndef MERCURY_COMPILER_ATTRIBUTES_H
#define MERCURY_COMPILER_ATTRIBUTES_H

#if !defined(__GNUC__)
#    error "GCC or a compatible compiler (clang, icx, nvc) is needed"
#endif

/* ISO C requires a declaration in every file, also in one that includes only this header. */
struct hg_class;

/* Symbol visibility: exported to users of the library, or hidden. */
#define HG_ATTR_ABI_IMPORT __attribute__((__visibility__("default")))
#define HG_ATTR_ABI_EXPORT __attribute__((__visibility__("default")))
#define HG_ATTR_ABI_HIDDEN __attribute__((__visibility__("hidden")))

/* The caller must use the function's result. */
#define HG_ATTR_WARN_UNUSED_RESULT __attribute__((__warn_unused_result__))

/* A parameter, a variable or a function that may stay unused. */
#define HG_ATTR_UNUSED __attribute__((__unused__))

/* Declaration x, aligned to a bytes. */
#define HG_ATTR_ALIGNED(x, a) x __attribute__((__aligned__(a)))

/* Declaration of a struct without padding. */
#define HG_ATTR_PACKED_PUSH
#define HG_ATTR_PACKED_POP __attribute__((__packed__))
#define HG_ATTR_PACKED(x)  HG_ATTR_PACKED_PUSH x HG_ATTR_PACKED_POP

/* Let the compiler check printf arguments: _fmt is the format's position, _firstarg that of the
 * first argument, both counted from 1. */
#define HG_ATTR_PRINTF(_fmt, _firstarg) __attribute__((__format__(printf, _fmt, _firstarg)))

/* Functions that run when the library is loaded or unloaded. */
#define HG_ATTR_CONSTRUCTOR             __attribute__((__constructor__))
#define HG_ATTR_CONSTRUCTOR_PRIORITY(x) __attribute__((__constructor__(x)))
#define HG_ATTR_DESTRUCTOR              __attribute__((__destructor__))

/* A case that intentionally continues with the next one. */
#if defined(__clang__) || (__GNUC__ >= 7)
#    define HG_ATTR_FALLTHROUGH __attribute__((__fallthrough__))
#else
#    define HG_ATTR_FALLTHROUGH \
        do {                    \
        } while (0)
#endif

#endif /* MERCURY_COMPILER_ATTRIBUTES_H */
