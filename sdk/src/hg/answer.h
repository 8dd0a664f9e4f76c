/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of HELLO. */
#ifndef HG_ANSWER_H
#define HG_ANSWER_H

#include "hg/handle.h"

/* Answers the HELLO that a handle has received; the `run` of the completion that is queued then. */
void hg_answer_run(struct hg_completion *completion);

#endif /* HG_ANSWER_H */
