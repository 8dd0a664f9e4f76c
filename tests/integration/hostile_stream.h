/* SPDX-License-Identifier: BSD-3-Clause */
/* How the transports cut their TCP streams into messages, and where in these our frames are. */
#ifndef TESTS_INTEGRATION_HOSTILE_STREAM_H
#define TESTS_INTEGRATION_HOSTILE_STREAM_H

#include "hostile.h"

enum hostile_form {
    HOSTILE_FORM_OFI,
    HOSTILE_FORM_BMI,
    HOSTILE_FORM_UCX,
    HOSTILE_FORM_CALL, /* the socket of the ucx plugin: processes introduce themselves */
};

/* One direction of a connection. */
struct hostile_stream {
    enum hostile_form form;
    bool is_of_caller;
    bool is_begun; /* what only begins a stream was there */
    bool is_called;
};

void hostile_stream_begin(struct hostile_stream *stream, const char *transport, bool is_of_caller);

/*
 * The size of the message that the bytes begin with; 0: not all of it is there. `back` is the other
 * direction.
 */
size_t hostile_stream_next(struct hostile_stream *stream, struct hostile_stream *back,
                           const uint8_t *data, size_t size);

/* Finds the frame in a message, and says what it is. */
void hostile_stream_classify(const struct hostile_stream *stream, struct hostile_message *message);

/*
 * Cuts that much off the end of the frame, so that the transport does not notice; with `is_told`
 * the frame's own header says so, too.
 */
void hostile_stream_shorten(const struct hostile_stream *stream, struct hostile_message *message,
                            size_t size, bool is_told);

/* Makes a refusal of a frame that is not compact, under the token that it says. */
void hostile_stream_refuse(const struct hostile_stream *stream, struct hostile_message *message);

#endif
