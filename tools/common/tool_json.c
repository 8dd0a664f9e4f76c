/* SPDX-License-Identifier: BSD-3-Clause */
/* Short forms of json-c calls. */

#include "common/tool_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t utf8_length(const unsigned char *text);

struct json_object *tool_json_new_string(const char *text)
{
    static const char unknown[] = "\xef\xbf\xbd"; /* U+FFFD */
    const size_t most = text != NULL ? strlen(text) * (sizeof(unknown) - 1) + 1 : 0;
    char *clean = text != NULL ? malloc(most) : NULL, *to = clean;
    struct json_object *string;

    if (clean == NULL)
        return NULL;
    while (*text != '\0') {
        const size_t length = utf8_length((const unsigned char *) text);

        memcpy(to, length > 0 ? text : unknown, length > 0 ? length : sizeof(unknown) - 1);
        to += length > 0 ? length : sizeof(unknown) - 1;
        text += length > 0 ? length : 1;
    }
    *to = '\0';
    string = json_object_new_string(clean);
    free(clean);
    return string;
}

void tool_json_add_string(struct json_object *object, const char *name, const char *text)
{
    (void) json_object_object_add(object, name, tool_json_new_string(text));
}

void tool_json_add_uint(struct json_object *object, const char *name, uint64_t value)
{
    (void) json_object_object_add(object, name, json_object_new_uint64(value));
}

void tool_json_add_int(struct json_object *object, const char *name, int64_t value)
{
    (void) json_object_object_add(object, name, json_object_new_int64(value));
}

void tool_json_add_bool(struct json_object *object, const char *name, bool value)
{
    (void) json_object_object_add(object, name, json_object_new_boolean(value));
}

void tool_json_add_number(struct json_object *object, const char *name, double value)
{
    char text[32];

    if (!isfinite(value)) {
        (void) json_object_object_add(object, name, NULL);
        return;
    }
    (void) snprintf(text, sizeof(text), fabs(value) >= 1e6 ? "%.0f" : "%.6g", value);
    (void) json_object_object_add(object, name, json_object_new_double_s(value, text));
}

bool tool_json_print(FILE *file, struct json_object *object)
{
    const char *text = json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    bool printed = text != NULL && fprintf(file, "%s\n", text) > 0 && fflush(file) == 0;

    (void) json_object_put(object);
    return printed;
}

/* Length in bytes of the UTF-8 character at text; 0: no valid character. */
static size_t utf8_length(const unsigned char *text)
{
    const unsigned char first = text[0], second = first != '\0' ? text[1] : '\0';
    size_t length = 0;

    if (first < 0x80)
        length = 1;
    else if (first >= 0xc2 && first < 0xe0)
        length = 2;
    else if ((first & 0xf0) == 0xe0)
        length = 3;
    else if (first >= 0xf0 && first < 0xf5)
        length = 4;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong, a surrogate, or above U+10FFFF. */
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
        (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90))
        return 0;
    return length;
}
