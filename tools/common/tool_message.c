/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages of the tools. Each is a single write, so that lines of several processes do not mix. */

#include "common/tool_message.h"

#include <stdarg.h>
#include <stdio.h>

static const char *tool_name = "tool";

static void message_write(const char *prefix, const char *format, va_list args);

void tool_message_set_name(const char *name)
{
    tool_name = name;
}

const char *tool_message_get_name(void)
{
    return tool_name;
}

void tool_error(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message_write("error: ", format, args);
    va_end(args);
}

void tool_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    message_write("", format, args);
    va_end(args);
}

static void message_write(const char *prefix, const char *format, va_list args)
{
    char text[2048];

    (void) vsnprintf(text, sizeof(text), format, args);
    fprintf(stderr, "%s: %s%s\n", tool_name, prefix, text);
}
