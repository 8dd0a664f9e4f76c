/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of plugins in init strings. The core checks their names against the plugin's list; the
 * plugin checks their values. */

#include "na/options.h"

#include "util/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char *options_check(const struct na_plugin *table, const char *options,
                                 const char **where_p);
static bool option_find(const struct na_plugin *table, const char *name, size_t length,
                        size_t *index_p);
static void options_explain(const struct na_plugin *table, const char *where, const char *wrong,
                            char *reason, size_t reason_size);

const char *na_option_name_check(const char *name)
{
    const size_t length = strnlen(name, NA_OPTION_NAME_MAX + 1);

    if (length == 0 || length > NA_OPTION_NAME_MAX)
        return "is empty or too long";
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length)
        return "is not made of lower-case letters, digits and \"_\"";
    return NULL;
}

na_return_t na_options_split(const struct na_plugin *table, char *address, const char **options_p,
                             char *reason, size_t reason_size)
{
    char *mark = address != NULL && table->option_names != NULL ? strrchr(address, '?') : NULL;
    const char *wrong, *where;

    *options_p = NULL;
    if (mark == NULL)
        return NA_SUCCESS;
    wrong = mark[1] != '\0' ? options_check(table, mark + 1, &where) : NULL;
    if (wrong != NULL) {
        options_explain(table, where, wrong, reason, reason_size);
        return NA_INVALID_ARG;
    }
    *mark = '\0';
    *options_p = mark[1] != '\0' ? mark + 1 : NULL;
    return NA_SUCCESS;
}

/* Returns what is wrong with the option at `*where_p`, or NULL if all are valid. */
static const char *options_check(const struct na_plugin *table, const char *options,
                                 const char **where_p)
{
    bool seen[NA_OPTIONS_MAX] = {false};

    for (;;) {
        const size_t length = strcspn(options, "&"), name_length = strcspn(options, "=&");
        size_t index;

        *where_p = options;
        if (!option_find(table, options, name_length, &index))
            return "it is unknown";
        if (name_length == length)
            return "\"name=value\" is expected";
        if (seen[index])
            return "it is given twice";
        seen[index] = true;
        if (options[length] == '\0')
            return NULL;
        options += length + 1;
    }
}

static bool option_find(const struct na_plugin *table, const char *name, size_t length,
                        size_t *index_p)
{
    for (size_t i = 0; table->option_names[i] != NULL; i++) {
        if (strlen(table->option_names[i]) == length &&
            memcmp(table->option_names[i], name, length) == 0) {
            *index_p = i;
            return true;
        }
    }
    return false;
}

static void options_explain(const struct na_plugin *table, const char *where, const char *wrong,
                            char *reason, size_t reason_size)
{
    const size_t length = strcspn(where, "&");
    struct text names = TEXT_INITIALIZER;

    for (size_t i = 0; table->option_names[i] != NULL; i++)
        text_append(&names, "%s%s", i > 0 ? ", " : "", table->option_names[i]);
    if (reason_size > 0)
        (void) snprintf(reason, reason_size, "option \"%.*s\": %s; the options of %s are: %s",
                        (int) (length < 60 ? length : 60), where, wrong, table->name,
                        text_get(&names));
    text_free(&names);
}
