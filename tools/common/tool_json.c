/* SPDX-License-Identifier: BSD-3-Clause */
/* Short forms of json-c calls. */

#include "common/tool_json.h"

#include <math.h>

void tool_json_add_string(struct json_object *object, const char *name, const char *text)
{
    (void) json_object_object_add(object, name, text != NULL ? json_object_new_string(text) : NULL);
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
