/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared objects that a program loads itself.
 */
#ifndef MERCURY_DL_H
#define MERCURY_DL_H

#include "mercury_util_config.h"

#include <dlfcn.h>

/* A shared object that is loaded. */
#define HG_DL_HANDLE void *

#ifdef __cplusplus
extern "C" {
#endif

/**
 * \return text of what failed last in this thread, overwritten by the next error in it, or NULL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE const char *hg_dl_error(void)
{
    return dlerror();
}

/**
 * Load a shared object; its functions are bound when they are first called.
 *
 * \param file [IN]     name or path
 *
 * \return handle, to be given back by hg_dl_close(), or NULL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE HG_DL_HANDLE hg_dl_open(const char *file)
{
    return dlopen(file, RTLD_LAZY);
}

/**
 * Give a shared object back.
 *
 * \param handle [IN]   handle
 *
 * \return 0, or another value if it is not a handle
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE int hg_dl_close(HG_DL_HANDLE handle)
{
    return dlclose(handle);
}

/**
 * Find a symbol of a shared object.
 *
 * \param handle [IN]   handle
 * \param name [IN]     symbol
 *
 * \return its address, valid until hg_dl_close(), or NULL
 *
 * Any thread. \since 1.0
 */
static HG_UTIL_INLINE void *hg_dl_sym(HG_DL_HANDLE handle, const char *name)
{
    return dlsym(handle, name);
}

/**
 * Tell in which folder the file lies that an address belongs to.
 *
 * \param addr [IN]         address of a function or variable
 * \param path [OUT]        path of the folder, without a slash at the end
 * \param path_size [IN]    bytes of \a path
 *
 * \return HG_UTIL_SUCCESS; HG_UTIL_FAIL if the address belongs to no file or \a path is too small
 *
 * Any thread. \since 1.0
 */
HG_UTIL_PUBLIC int hg_dl_get_path(const void *addr, char *path, size_t path_size);

#ifdef __cplusplus
}
#endif

#endif /* MERCURY_DL_H */
