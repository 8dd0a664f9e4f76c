/* SPDX-License-Identifier: BSD-3-Clause */
/* Init info of any API version as checked options. */
#ifndef HG_OPTIONS_H
#define HG_OPTIONS_H

#include "mercury.h"

/* The strings belong to the caller of HG_Init_opt2() and are valid during that call only. */
struct hg_options {
    struct hg_init_info info; /* in the latest version, with the defaults for receives set */
    struct na_init_info na_init_info;
    const char *auth_key; /* NULL: none */
};

hg_return_t hg_options_read(struct hg_options *options, unsigned int version,
                            const struct hg_init_info *info);

#endif /* HG_OPTIONS_H */
