/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw transport operations: messages, put and get, without RPC. Shared by both sides. */

#ifndef AMALGAM_PERF_NA_H
#define AMALGAM_PERF_NA_H

#include <na.h>

#include "hg_perf/perf_options.h"

/* The first word of a message's payload is a request to the target. */
#define PERF_NA_ECHO   UINT64_C(0x6f68636566726570) /* answer with as many bytes */
#define PERF_NA_REGION UINT64_C(0x6e6f696765726570) /* answer with the memory handle of a buffer */

/* Payload of a PERF_NA_REGION message; the answer is a serialized memory handle of that size. */
struct perf_na_region {
    uint64_t request;
    uint64_t size;
};

/* A message buffer of the transport. Its payload begins after the transport's own header. */
struct perf_na_buffer {
    void *memory;
    void *plugin_data;
    size_t header_size;
    size_t size; /* of the whole buffer */
};

/* The target of `hg_perf na`: answers until a signal; returns the exit code. */
int perf_na_target_run(const struct perf_options *options);

/* Opens an endpoint for the options; NULL after an error on stderr. */
na_class_t *perf_na_class_create(const struct perf_options *options, bool listen);

/* Allocates a buffer for the longest unexpected or expected message, to send (NA_SEND) or to
 * receive (NA_RECV). */
bool perf_na_buffer_create(na_class_t *na_class, struct perf_na_buffer *buffer, bool expected,
                           unsigned long flags);
void perf_na_buffer_destroy(na_class_t *na_class, struct perf_na_buffer *buffer);

/* The payload in a buffer. */
static inline unsigned char *perf_na_payload(const struct perf_na_buffer *buffer)
{
    return (unsigned char *) buffer->memory + buffer->header_size;
}

/* One round of a service's loop: runs callbacks; if there were none, makes progress. */
na_return_t perf_na_progress(na_class_t *na_class, na_context_t *context, unsigned int timeout_ms);

#endif /* AMALGAM_PERF_NA_H */
