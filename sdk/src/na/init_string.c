/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of init strings. A malformed string is refused with the reason and the position. */

#include "na/init_string.h"

#include "na/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AUTO_WORD "auto"

struct parser {
    const char *string; /* the whole init string; positions in errors count from its start */
    char *reason;       /* gets the error; may be NULL */
    size_t reason_size;
};

static na_return_t parse_choice(const struct parser *parser, const char *begin, size_t length,
                                struct na_init_choice *choice);
static na_return_t parse_plugin(const struct parser *parser, const char *begin, size_t length,
                                struct na_init_choice *choice);
static na_return_t parse_protocol(const struct parser *parser, const char *begin, size_t length,
                                  struct na_init_choice *choice);
static na_return_t parse_address(const struct parser *parser, const char *begin, size_t length,
                                 struct na_init_choice *choice);
static na_return_t parse_error(const struct parser *parser, const char *where, const char *what);
static na_return_t copy_part(char **copy_p, const char *begin, size_t length);
static size_t count_choices(const char *string);
static bool is_name_char(char c);
static bool is_protocol_char(char c);
static bool is_lone_plus(const char *protocol, size_t length, size_t i);
static bool is_number(const char *begin, size_t length);

na_return_t na_init_string_parse(const char *string, struct na_init_string *parsed, char *reason,
                                 size_t reason_size)
{
    const struct parser parser = {string, reason, reason_size};
    const char *begin = string;
    na_return_t ret = NA_SUCCESS;

    memset(parsed, 0, sizeof(*parsed));
    if (string == NULL)
        return parse_error(&parser, NULL, "the init string is NULL");
    if (string[0] == '\0')
        return parse_error(&parser, string, "the init string is empty");
    if (strnlen(string, NA_INIT_STRING_MAX + 1) > NA_INIT_STRING_MAX)
        return parse_error(&parser, string + NA_INIT_STRING_MAX, "the init string is too long");

    parsed->choices = calloc(count_choices(string), sizeof(*parsed->choices));
    if (parsed->choices == NULL)
        return NA_NOMEM;
    for (;;) {
        size_t length = strcspn(begin, ",");

        ret = parse_choice(&parser, begin, length, &parsed->choices[parsed->count]);
        parsed->count++;
        if (ret != NA_SUCCESS || begin[length] == '\0')
            break;
        begin += length + 1;
    }
    if (ret != NA_SUCCESS)
        na_init_string_free(parsed);
    return ret;
}

void na_init_string_free(struct na_init_string *parsed)
{
    for (size_t i = 0; i < parsed->count; i++) {
        free(parsed->choices[i].plugin);
        free(parsed->choices[i].protocol);
        free(parsed->choices[i].address);
    }
    free(parsed->choices);
    memset(parsed, 0, sizeof(*parsed));
}

bool na_plugin_name_is_valid(const char *name)
{
    size_t length = name != NULL ? strnlen(name, NA_PLUGIN_NAME_MAX + 1) : 0;

    if (length == 0 || length > NA_PLUGIN_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_name_char(name[i]))
            return false;
    return true;
}

bool na_protocol_name_is_valid(const char *name)
{
    size_t length = name != NULL ? strnlen(name, NA_PROTOCOL_NAME_MAX + 1) : 0;

    if (length == 0 || length > NA_PROTOCOL_NAME_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!is_protocol_char(name[i]) || is_lone_plus(name, length, i))
            return false;
    return true;
}

na_return_t NA_Check_init_string(const char *info_string, char *reason, size_t reason_size)
{
    struct na_init_string parsed;
    na_return_t ret = na_init_string_parse(info_string, &parsed, reason, reason_size);

    na_init_string_free(&parsed);
    return ret;
}

static na_return_t parse_choice(const struct parser *parser, const char *begin, size_t length,
                                struct na_init_choice *choice)
{
    const char *colon, *plus, *end = begin + length;
    na_return_t ret;

    if (length == 0)
        return parse_error(parser, begin, "a choice is missing beside a comma");
    /* A comma inside a number, as in `?timeout=1,5`, leaves digits that pass for a protocol. */
    if (is_number(begin, length))
        return parse_error(parser, begin,
                           "a number is no choice; fractions have a point, ranges a colon");
    colon = memchr(begin, ':', length);
    if (colon != NULL) {
        if (end - colon < 3 || colon[1] != '/' || colon[2] != '/')
            return parse_error(parser, colon, "\"://\" is expected after the protocol");
        ret = parse_address(parser, colon + 3, (size_t) (end - colon - 3), choice);
        if (ret != NA_SUCCESS)
            return ret;
        end = colon;
    }
    plus = memchr(begin, '+', (size_t) (end - begin));
    if (plus != NULL) {
        ret = parse_plugin(parser, begin, (size_t) (plus - begin), choice);
        if (ret != NA_SUCCESS)
            return ret;
        begin = plus + 1;
    } else if (end - begin == (ptrdiff_t) strlen(AUTO_WORD) &&
               memcmp(begin, AUTO_WORD, strlen(AUTO_WORD)) == 0) {
        return NA_SUCCESS;
    }
    return parse_protocol(parser, begin, (size_t) (end - begin), choice);
}

static na_return_t parse_plugin(const struct parser *parser, const char *begin, size_t length,
                                struct na_init_choice *choice)
{
    if (length == 0)
        return parse_error(parser, begin, "a plugin's name is missing before \"+\"");
    if (length > NA_PLUGIN_NAME_MAX)
        return parse_error(parser, begin, "the plugin's name is too long");
    for (size_t i = 0; i < length; i++)
        if (!is_name_char(begin[i]))
            return parse_error(parser, begin + i,
                               "a plugin's name has only letters, digits, \"_\" and \"-\"");
    if (length == strlen(AUTO_WORD) && memcmp(begin, AUTO_WORD, length) == 0)
        return parse_error(parser, begin + length, "\"auto\" takes no protocol");
    return copy_part(&choice->plugin, begin, length);
}

static na_return_t parse_protocol(const struct parser *parser, const char *begin, size_t length,
                                  struct na_init_choice *choice)
{
    if (length == 0)
        return parse_error(parser, begin, "a protocol's name is missing");
    for (size_t i = 0; i < length; i++) {
        if (!is_protocol_char(begin[i]))
            return parse_error(parser, begin + i,
                               "a protocol's name has only letters, digits and \"_-.;+\"");
        if (is_lone_plus(begin, length, i))
            return parse_error(parser, begin + i, "a name is missing beside \"+\"");
    }
    return copy_part(&choice->protocol, begin, length);
}

/* An empty address after "://" is the same as no address. */
static na_return_t parse_address(const struct parser *parser, const char *begin, size_t length,
                                 struct na_init_choice *choice)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char) begin[i] <= ' ' || (unsigned char) begin[i] >= 0x7f)
            return parse_error(parser, begin + i,
                               "an address has only visible ASCII characters, and no space");
    return length > 0 ? copy_part(&choice->address, begin, length) : NA_SUCCESS;
}

static na_return_t parse_error(const struct parser *parser, const char *where, const char *what)
{
    char text[256], escaped[2 * sizeof(text)];

    if (where == NULL)
        (void) snprintf(text, sizeof(text), "malformed init string: %s", what);
    else
        (void) snprintf(text, sizeof(text), "malformed init string \"%.80s\", at character %zu: %s",
                        parser->string, (size_t) (where - parser->string) + 1, what);
    NA_LOG_ERROR("%s; it reads [plugin+]protocol[://address] or auto, several separated by commas",
                 text);
    if (parser->reason != NULL && parser->reason_size > 0) {
        na_log_escape(escaped, sizeof(escaped), text);
        (void) snprintf(parser->reason, parser->reason_size, "%s", escaped);
    }
    return NA_INVALID_ARG;
}

static na_return_t copy_part(char **copy_p, const char *begin, size_t length)
{
    *copy_p = strndup(begin, length);
    return *copy_p != NULL ? NA_SUCCESS : NA_NOMEM;
}

static size_t count_choices(const char *string)
{
    size_t count = 1;

    for (; *string != '\0'; string++)
        count += *string == ',';
    return count;
}

/* Unlike isalnum(), does not depend on the locale. */
static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool is_protocol_char(char c)
{
    return is_name_char(c) || c == '.' || c == ';' || c == '+';
}

/* Returns true for a "+" that has no name before or after it. */
static bool is_lone_plus(const char *protocol, size_t length, size_t i)
{
    return protocol[i] == '+' && (i == 0 || i + 1 == length || protocol[i + 1] == '+');
}

static bool is_number(const char *begin, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (begin[i] < '0' || begin[i] > '9')
            return false;
    return true;
}
