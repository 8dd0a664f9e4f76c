/* SPDX-License-Identifier: BSD-3-Clause */
/* The target's side of HELLO. */
#ifndef HG_ANSWER_H
#define HG_ANSWER_H

#include "hg/handle.h"

/* Answer the HELLO that a handle has received; the completion that hg_recv_dispatch() queues. */
void hg_answer_run(struct hg_completion *completion);

#endif /* HG_ANSWER_H */
