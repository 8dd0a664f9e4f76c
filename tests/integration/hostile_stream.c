/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Frames of the transport kit are found by their headers, which are never encrypted. Of the
 * transports' own headers this file uses what the wire shows: the offset of a message's size, and
 * which bytes that size counts.
 */
#include "hostile_stream.h"

#include "kit_session.h"
#include "wire.h"

#include <endian.h>

#define OFI_FIRST      32u /* size of the connecting message, whose length field is elsewhere */
#define OFI_SIZE_AT    8u
#define OFI_FRAME_AT   16u
#define BMI_SIZE_AT    16u
#define BMI_FRAME_AT   25u
#define UCX_MAGIC_SIZE 8u
#define UCX_SIZE_AT    1u
#define UCX_HEAD       5u
#define UCX_TAIL_AT    9u /* size of what follows the frame */
#define UCX_FRAME_AT   13u
#define CALL_MAGIC     0x43435855u
#define CALL_CHALLENGE 72u
#define CALL_SIZE_AT   8u
#define CALL_MIN       136u
#define PIECE_MIN      400u /* an encrypted frame of at least this size is taken for bulk data */

static uint32_t read32(const uint8_t *place)
{
    return wire_number(place);
}

static uint64_t read64(const uint8_t *place)
{
    uint64_t number;

    memcpy(&number, place, sizeof(number));
    return le64toh(number);
}

static void less32(uint8_t *place, size_t size)
{
    const uint32_t number = htole32((uint32_t) (read32(place) - size));

    memcpy(place, &number, sizeof(number));
}

static void less64(uint8_t *place, size_t size)
{
    const uint64_t number = htole64(read64(place) - size);

    memcpy(place, &number, sizeof(number));
}

void hostile_stream_begin(struct hostile_stream *stream, const char *transport, bool is_of_caller)
{
    *stream = (struct hostile_stream){.is_of_caller = is_of_caller, .form = HOSTILE_FORM_UCX};
    if (strncmp(transport, "ofi", 3) == 0)
        stream->form = HOSTILE_FORM_OFI;
    else if (strncmp(transport, "bmi", 3) == 0)
        stream->form = HOSTILE_FORM_BMI;
}

static uint64_t ofi_next(struct hostile_stream *stream, const uint8_t *data, size_t size)
{
    if (size < OFI_SIZE_AT + 8)
        return 0;
    if (stream->is_begun)
        return read64(data + OFI_SIZE_AT);
    stream->is_begun = true;
    return OFI_FIRST + (uint64_t) (data[2] << 8 | data[3]);
}

/* A connection of the plugin's own socket begins with the challenge of the accepting side. */
static uint64_t ucx_next(struct hostile_stream *stream, struct hostile_stream *back,
                         const uint8_t *data, size_t size)
{
    if (!stream->is_begun && !stream->is_of_caller && size >= 4 && read32(data) == CALL_MAGIC) {
        stream->is_begun = true;
        stream->form = back->form = HOSTILE_FORM_CALL;
        return CALL_CHALLENGE;
    }
    if (size < UCX_MAGIC_SIZE)
        return 0;
    if (!stream->is_begun && stream->is_of_caller) {
        stream->is_begun = true;
        return UCX_MAGIC_SIZE;
    }
    stream->is_begun = true;
    return UCX_HEAD + (uint64_t) read32(data + UCX_SIZE_AT);
}

/* Each side sends one introduction, whose size it contains; what follows is forwarded unchanged. */
static uint64_t call_next(struct hostile_stream *stream, const uint8_t *data, size_t size)
{
    if (stream->is_called)
        return size;
    stream->is_called = read32(data + CALL_SIZE_AT) <= size;
    return read32(data + CALL_SIZE_AT);
}

size_t hostile_stream_next(struct hostile_stream *stream, struct hostile_stream *back,
                           const uint8_t *data, size_t size)
{
    const bool is_begun = stream->is_begun;
    uint64_t length = 0;

    if (stream->form == HOSTILE_FORM_OFI)
        length = ofi_next(stream, data, size);
    else if (stream->form == HOSTILE_FORM_BMI && size >= BMI_FRAME_AT)
        length = BMI_FRAME_AT + read64(data + BMI_SIZE_AT);
    else if (stream->form == HOSTILE_FORM_UCX)
        length = ucx_next(stream, back, data, size);
    else if (stream->form == HOSTILE_FORM_CALL && (stream->is_called || size >= CALL_SIZE_AT + 4))
        length = call_next(stream, data, size);
    if (length > HOSTILE_MESSAGE_MAX)
        length = size; /* not a size after all: the bytes are forwarded unchanged */
    if (length > size) {
        stream->is_begun = is_begun;
        return 0;
    }
    return (size_t) length;
}

static enum hostile_kind record_kind(const struct wire_record *record)
{
    switch (le16toh(record->kind)) {
    case WIRE_UNEXPECTED:
        return HOSTILE_REQUEST;
    case WIRE_EXPECTED:
        return HOSTILE_RESPONSE;
    case WIRE_CONTROL:
        return HOSTILE_RECORD;
    case WIRE_BYE:
        return HOSTILE_BYE;
    default:
        return HOSTILE_OTHER;
    }
}

/* The kind of an encrypted frame is guessed from its size. */
static enum hostile_kind frame_kind(const uint8_t *frame, size_t size)
{
    struct wire_header header;
    struct wire_record record;
    const size_t least = sizeof(header) + sizeof(record);

    if (size > sizeof(struct wire_compact) && frame[0] == WIRE_COMPACT)
        return frame[1] == WIRE_UNEXPECTED ? HOSTILE_REQUEST : HOSTILE_RESPONSE;
    if (size < least)
        return HOSTILE_OTHER;
    memcpy(&header, frame, sizeof(header));
    memcpy(&record, frame + sizeof(header), sizeof(record));
    if (!wire_header_is_good(&header, size))
        return HOSTILE_OTHER;
    if ((header.flags & WIRE_HAS_HELLO) != 0)
        return (header.flags & WIRE_IS_SEALED) != 0 ? HOSTILE_HELLO_MET : HOSTILE_HELLO;
    if (le16toh(record.kind) == WIRE_HELLO_ACK && le32toh(record.size) < size)
        return (header.flags & WIRE_IS_SEALED) != 0 ? HOSTILE_HELLO_ACK_MET : HOSTILE_HELLO_ACK;
    if (le32toh(record.size) <= size - least && le16toh(record.kind) <= WIRE_REFUSAL)
        return record_kind(&record);
    return size < PIECE_MIN ? HOSTILE_SEALED : HOSTILE_PIECE;
}

void hostile_stream_classify(const struct hostile_stream *stream, struct hostile_message *message)
{
    static const size_t places[] = {[HOSTILE_FORM_OFI] = OFI_FRAME_AT,
                                    [HOSTILE_FORM_BMI] = BMI_FRAME_AT,
                                    [HOSTILE_FORM_UCX] = UCX_FRAME_AT};

    message->kind = HOSTILE_OTHER;
    if (stream->form == HOSTILE_FORM_CALL) {
        message->at = 0;
        message->frame_size = message->size;
        if (read32(message->data) == CALL_MAGIC)
            message->kind = HOSTILE_CHALLENGE;
        else if (message->size >= CALL_MIN)
            message->kind = stream->is_of_caller ? HOSTILE_CALL : HOSTILE_CALLED;
        return;
    }
    message->at = places[stream->form];
    if (message->size <= message->at)
        return;
    message->frame_size = message->size - message->at;
    if (stream->form == HOSTILE_FORM_UCX) {
        const uint32_t tail = read32(message->data + UCX_TAIL_AT);

        if (tail >= message->frame_size)
            return;
        message->frame_size -= tail;
    }
    message->kind = frame_kind(message->data + message->at, message->frame_size);
}

void hostile_stream_shorten(const struct hostile_stream *stream, struct hostile_message *message,
                            size_t size, bool is_told)
{
    uint8_t *data = message->data, *frame = data + message->at, *end = frame + message->frame_size;

    if (stream->form == HOSTILE_FORM_OFI) {
        less64(data + OFI_SIZE_AT, size);
    } else if (stream->form == HOSTILE_FORM_BMI) {
        less64(data + BMI_SIZE_AT, size);
    } else if (stream->form == HOSTILE_FORM_UCX) {
        less32(data + UCX_SIZE_AT, size);
    } else if (message->kind != HOSTILE_CHALLENGE) {
        less32(data + CALL_SIZE_AT, size);
    }
    if (is_told && stream->form != HOSTILE_FORM_CALL && frame[0] != WIRE_COMPACT)
        less32(frame + offsetof(struct wire_header, size), size);
    memmove(end - size, end, message->size - message->at - message->frame_size);
    message->size -= size;
    message->frame_size -= size;
}

void hostile_stream_refuse(const struct hostile_stream *stream, struct hostile_message *message)
{
    const struct wire_record record = {.kind = htole16(WIRE_REFUSAL),
                                       .tag = htole32(KIT_REFUSAL_OTHER_KEY)};
    struct wire_header header;

    hostile_stream_shorten(stream, message, message->frame_size - sizeof(header) - sizeof(record),
                           true);
    memcpy(&header, message->data + message->at, sizeof(header));
    header.flags = 0;
    memcpy(message->data + message->at, &header, sizeof(header));
    memcpy(message->data + message->at + sizeof(header), &record, sizeof(record));
}
