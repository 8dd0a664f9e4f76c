/* SPDX-License-Identifier: BSD-3-Clause */
/* The init info of any API version as checked options. */
#ifndef HG_OPTIONS_H
#define HG_OPTIONS_H

#include "mercury.h"

/*
 * Checked init info. Strings belong to the caller of HG_Init_opt2() and are valid during it only.
 */
struct hg_options {
    struct na_init_info na_init_info;
    na_class_t *na_class;
    const char *sm_info_string;
    const char *auth_key; /* NULL: none */
    uint32_t request_post_init;
    uint32_t request_post_incr;
    hg_checksum_level_t checksum_level;
    bool auto_sm;
    bool no_bulk_eager;
    bool no_loopback;
    bool stats;
    bool release_input_early;
    bool no_overflow;
};

hg_return_t hg_options_read(struct hg_options *options, unsigned int version,
                            const struct hg_init_info *info);

#endif /* HG_OPTIONS_H */
