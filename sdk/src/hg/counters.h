/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of a class: sums over its contexts and their handles. */
#ifndef HG_COUNTERS_H
#define HG_COUNTERS_H

#include "engine/class.h"

/* Count a forward that did not succeed. */
void hg_counters_forward_failed(hg_context_t *context, hg_return_t ret);

/* Keep the counters of a context that is destroyed. The class's lock is held. */
void hg_counters_retire(hg_class_t *hg_class, hg_context_t *context);

/* Write the counters of a class to the log. */
void hg_counters_log(hg_class_t *hg_class);

#endif /* HG_COUNTERS_H */
