/* SPDX-License-Identifier: BSD-3-Clause */
/* How the transports divide their TCP streams into messages, and where in a message the kit's frame
 * is. */
#ifndef TESTS_INTEGRATION_HOSTILE_STREAM_H
#define TESTS_INTEGRATION_HOSTILE_STREAM_H

#include "hostile.h"

enum hostile_form {
    HOSTILE_FORM_OFI,
    HOSTILE_FORM_BMI,
    HOSTILE_FORM_UCX,
    HOSTILE_FORM_CALL, /* the socket of the ucx plugin, on which processes introduce themselves */
};

/* One direction of a connection. */
struct hostile_stream {
    enum hostile_form form;
    bool is_of_caller;
    bool is_begun; /* the part that occurs only at the beginning has passed */
    bool is_called;
};

void hostile_stream_begin(struct hostile_stream *stream, const char *transport, bool is_of_caller);

/* Returns the size of the message at the start of the bytes; 0 when the message is not complete.
 * `back` is the opposite direction of the connection. */
size_t hostile_stream_next(struct hostile_stream *stream, struct hostile_stream *back,
                           const uint8_t *data, size_t size);

/* Finds the frame in a message and determines its kind. */
void hostile_stream_classify(const struct hostile_stream *stream, struct hostile_message *message);

/* Cuts `size` bytes off the end of the frame, while the message stays valid for the transport. With
 * `is_told` the size in the frame's own header is reduced, too. */
void hostile_stream_shorten(const struct hostile_stream *stream, struct hostile_message *message,
                            size_t size, bool is_told);

/* Forges a refusal of a frame that is not compact, with the token of the frame. */
void hostile_stream_refuse(const struct hostile_stream *stream, struct hostile_message *message);

#endif
