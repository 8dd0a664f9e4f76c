/* SPDX-License-Identifier: BSD-3-Clause */
/* A growing string for reports and error texts. An append without memory drops its part. */

#ifndef UTIL_TEXT_H
#define UTIL_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *chars; /* NULL while empty */
    size_t length;
    size_t size;
    bool is_cut; /* a part was dropped for lack of memory */
};

#define TEXT_INITIALIZER  \
    {                     \
        NULL, 0, 0, false \
    }

/* Returns the text, never NULL. */
static inline const char *text_get(const struct text *text)
{
    return text->chars != NULL ? text->chars : "";
}

static inline void text_free(struct text *text)
{
    free(text->chars);
    text->chars = NULL;
    text->length = text->size = 0;
}

static inline void __attribute__((format(printf, 2, 3)))
text_append(struct text *text, const char *format, ...)
{
    char line[1024];
    size_t length;
    va_list args;
    int count;

    va_start(args, format);
    count = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (count <= 0)
        return;
    length = (size_t) count < sizeof(line) ? (size_t) count : sizeof(line) - 1;
    if (text->length + length + 1 > text->size) {
        size_t size = 2 * text->size + length + 128;
        char *chars = realloc(text->chars, size);

        if (chars == NULL) {
            text->is_cut = true;
            return;
        }
        text->chars = chars;
        text->size = size;
    }
    memcpy(text->chars + text->length, line, length + 1);
    text->length += length;
}

#endif /* UTIL_TEXT_H */
