/* SPDX-License-Identifier: BSD-3-Clause */
/* Walking the segments of a memory handle. */

#include "sm.h"

#include <sys/uio.h>

/* Copies a message, from `offset` on, to memory that has room for it. */
void sm_mem_store(const struct na_plugin_mem *mem, uint64_t mem_offset,
                  const struct sm_message *message, uint32_t offset)
{
    struct sm_cursor cursor;

    sm_cursor_seek(&cursor, mem, mem_offset);
    while (offset < message->size) {
        uint64_t span;
        void *to = sm_cursor_span(&cursor, message->size - offset, &span);

        sm_message_copy(to, message, offset, (uint32_t) span);
        offset += (uint32_t) span;
    }
}

void sm_cursor_seek(struct sm_cursor *cursor, const struct na_plugin_mem *mem, uint64_t offset)
{
    cursor->segments = mem->segments;
    cursor->index = 0;
    while (cursor->index < mem->segment_count && offset >= mem->segments[cursor->index].length)
        offset -= mem->segments[cursor->index++].length;
    cursor->offset = offset;
}

/* The next contiguous piece, of at most `wanted` bytes, which must not pass the handle's end. */
void *sm_cursor_span(struct sm_cursor *cursor, uint64_t wanted, uint64_t *size_p)
{
    const struct na_plugin_segment *segment = &cursor->segments[cursor->index];
    uint64_t left;
    void *at;

    while (segment->length == cursor->offset) {
        segment = &cursor->segments[++cursor->index];
        cursor->offset = 0;
    }
    left = segment->length - cursor->offset;
    at = (void *) ((uintptr_t) segment->base + cursor->offset);
    *size_p = wanted < left ? wanted : left;
    cursor->offset += *size_p;
    return at;
}

/* Fills up to `count` vectors with up to `length` bytes. Returns their number, and their bytes. */
uint32_t sm_cursor_iovecs(struct sm_cursor *cursor, uint64_t length, struct iovec *vectors,
                          uint32_t count, uint64_t *length_p)
{
    uint64_t done = 0;
    uint32_t used = 0;

    while (used < count && done < length) {
        uint64_t size;

        vectors[used].iov_base = sm_cursor_span(cursor, length - done, &size);
        vectors[used].iov_len = size;
        done += size;
        used++;
    }
    *length_p = done;
    return used;
}
