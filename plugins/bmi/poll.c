/* SPDX-License-Identifier: BSD-3-Clause */
/* Progress, and sleeping on BMI's descriptor where it has one. */

#include "bmi_na.h"

#define COMPLETIONS 16

/* Polls between two reads of the clock. */
#define POLLS_A_CLOCK 1024u

/* Longest sleep while transfers are active, which may time out. */
#define SLEEP_MS 1000

static void completions_take(struct na_plugin_class *na_class);
static int32_t poll_failed(struct na_plugin_class *na_class);

int32_t bmi_na_poll(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);
    bool is_time = na_class->is_clock_due || ++na_class->polls % POLLS_A_CLOCK == 0;
    int ret;

    library_use(&na_class->library);
    na_class->error = 0;
    ret = library_progress();
    if (ret < 0)
        na_class->error = ret;
    completions_take(na_class);
    bmi_na_frames_take(na_class);
    kit_rma_poll(na_class->base.rma, is_time ? kit_host->clock_ns() : 0);
    na_class->is_clock_due = false;
    return na_class->error == 0 ? NA_PLUGIN_SUCCESS : poll_failed(na_class);
}

int bmi_na_get_fd(struct kit_endpoint *endpoint)
{
    return bmi_na_class(endpoint)->wait_fd;
}

bool bmi_na_try_wait(struct kit_endpoint *endpoint)
{
    struct na_plugin_class *na_class = bmi_na_class(endpoint);

    library_use(&na_class->library);
    if (kit_rma_has_work(na_class->base.rma) || !library_may_wait())
        return false;
    na_class->is_clock_due = true;
    if (kit_rma_is_active(na_class->base.rma))
        library_wake_in(SLEEP_MS);
    return true;
}

/*
 * Handling a completion may post operations, or cancel ones that complete later in this loop. Their
 * ids are not valid any more, and an installed BMI crashes on them, so is_posted is cleared first.
 */
static void completions_take(struct na_plugin_class *na_class)
{
    bmi_op_id_t ids[COMPLETIONS];
    bmi_error_code_t errors[COMPLETIONS];
    bmi_size_t sizes[COMPLETIONS];
    void *requests[COMPLETIONS];
    int count = 0;
    int ret;

    ret = BMI_testcontext(COMPLETIONS, ids, &count, errors, sizes, requests, library_test_ms,
                          na_class->context);
    if (ret < 0)
        na_class->error = ret;
    for (int i = 0; i < count; i++)
        ((struct request *) requests[i])->is_posted = false;
    for (int i = 0; i < count; i++) {
        struct request *request = requests[i];

        if (request->kind == REQUEST_FRAME)
            bmi_na_frame_done(na_class, (struct bmi_na_frame *) (void *) request, errors[i]);
        else
            bmi_na_piece_done(na_class, (struct bmi_na_piece *) (void *) request, errors[i],
                              (uint64_t) sizes[i]);
    }
}

static int32_t poll_failed(struct na_plugin_class *na_class)
{
    if (!na_class->is_failed)
        BMI_NA_LOG_ERROR("BMI makes no progress: %s", bmi_na_reason(na_class->error));
    na_class->is_failed = true;
    return NA_PLUGIN_IO_ERROR;
}
