/* SPDX-License-Identifier: BSD-3-Clause */
/* Short forms of json-c calls: adding a member never fails halfway, and printing is one call. */

#ifndef AMALGAM_TOOL_JSON_H
#define AMALGAM_TOOL_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

/* A string, or null for NULL or if out of memory; each byte that is not UTF-8 becomes U+FFFD. */
struct json_object *tool_json_new_string(const char *text);

/* Adds a member to an object. A NULL text and a number that is not finite become null. */
void tool_json_add_string(struct json_object *object, const char *name, const char *text);
void tool_json_add_uint(struct json_object *object, const char *name, uint64_t value);
void tool_json_add_int(struct json_object *object, const char *name, int64_t value);
void tool_json_add_bool(struct json_object *object, const char *name, bool value);

/* A number with at most six significant digits. */
void tool_json_add_number(struct json_object *object, const char *name, double value);

/* Prints the object and a line end, then releases the object; false if writing failed. */
bool tool_json_print(FILE *file, struct json_object *object);

#endif /* AMALGAM_TOOL_JSON_H */
