/* SPDX-License-Identifier: BSD-3-Clause */
/* Return codes. */
#ifndef HG_ENGINE_LIBRARY_H
#define HG_ENGINE_LIBRARY_H

#include "mercury.h"

/* The HG code of an NA code. The common ones are numerically equal. */
static inline hg_return_t hg_return_from_na(na_return_t na_return)
{
    return na_return < NA_RETURN_MAX ? (hg_return_t) na_return : HG_NA_ERROR;
}

#endif /* HG_ENGINE_LIBRARY_H */
