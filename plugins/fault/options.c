/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the init string. Numbers are parsed independently of the locale. */

#include "options.h"

#include <stdio.h>
#include <string.h>

#define US_MAX           UINT64_C(3600000000) /* an hour */
#define REORDER_DEFAULT  UINT64_C(1000)       /* microseconds */
#define CANCEL_DEFAULT   UINT64_C(100000)
#define FRACTION_DIGITS  15
#define VALUE_LENGTH_MAX 40

enum option_type {
    OPTION_PROBABILITY,
    OPTION_RANGE_US,
    OPTION_US,
    OPTION_NUMBER,
    OPTION_ORDER
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset;
};

static const struct option known[] = {
    {"drop", OPTION_PROBABILITY, offsetof(struct fault_options, drop)},
    {"delay_us", OPTION_RANGE_US, offsetof(struct fault_options, delay_min_ns)},
    {"reorder", OPTION_PROBABILITY, offsetof(struct fault_options, reorder)},
    {"reorder_us", OPTION_US, offsetof(struct fault_options, reorder_ns)},
    {"order", OPTION_ORDER, offsetof(struct fault_options, any_order)},
    {"cancel_fails", OPTION_PROBABILITY, offsetof(struct fault_options, cancel_fails)},
    {"cancel_us", OPTION_US, offsetof(struct fault_options, cancel_ns)},
    {"die_after", OPTION_NUMBER, offsetof(struct fault_options, die_after)},
    {"seed", OPTION_NUMBER, offsetof(struct fault_options, seed)},
};

#define KNOWN (sizeof(known) / sizeof(known[0]))

static const struct option *find(const char *name, size_t length);
static const char *parse_value(const struct option *option, const char *value,
                               struct fault_options *options);
static bool parse_probability(const char *text, uint64_t *value_p);
static bool parse_range(const char *text, uint64_t *range);
static bool parse_number(const char *text, uint64_t max, uint64_t *value_p);

bool fault_options_parse(const char *string, struct fault_options *options, char *reason,
                         size_t reason_size)
{
    bool seen[KNOWN] = {false};

    *options = (struct fault_options){.reorder_ns = REORDER_DEFAULT * 1000,
                                      .cancel_ns = CANCEL_DEFAULT * 1000};
    while (string != NULL) {
        const size_t length = strcspn(string, "&"), name_length = strcspn(string, "=&");
        const struct option *option = find(string, name_length);
        char value[VALUE_LENGTH_MAX + 1] = "";
        const char *wrong = NULL;

        if (option == NULL)
            wrong = "there are drop, delay_us, reorder, reorder_us, order, cancel_fails, "
                    "cancel_us, die_after and seed";
        else if (seen[option - known])
            wrong = "it is given twice";
        else if (name_length == length || length - name_length - 1 > VALUE_LENGTH_MAX)
            wrong = "\"name=value\" is expected";
        if (wrong == NULL) {
            memcpy(value, string + name_length + 1, length - name_length - 1);
            seen[option - known] = true;
            wrong = parse_value(option, value, options);
        }
        if (wrong != NULL) {
            (void) snprintf(reason, reason_size, "option \"%.*s\": %s",
                            (int) (length < 60 ? length : 60), string, wrong);
            return false;
        }
        string = string[length] != '\0' ? string + length + 1 : NULL;
    }
    return true;
}

static const struct option *find(const char *name, size_t length)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0)
            return &known[i];
    return NULL;
}

/* Returns what is wrong, or NULL. */
static const char *parse_value(const struct option *option, const char *value,
                               struct fault_options *options)
{
    void *place = (char *) options + option->offset;
    uint64_t *number = place;

    switch (option->type) {
    case OPTION_PROBABILITY:
        return parse_probability(value, number) ? NULL : "a probability from 0 to 1 is expected";
    case OPTION_RANGE_US:
        return parse_range(value, number)
                   ? NULL
                   : "microseconds are expected, up to an hour, one number or least:most";
    case OPTION_US:
        if (!parse_number(value, US_MAX, number))
            return "microseconds are expected, up to an hour";
        *number *= 1000;
        return NULL;
    case OPTION_NUMBER:
        return parse_number(value, UINT64_MAX, number) ? NULL : "a number is expected";
    case OPTION_ORDER:
        *(bool *) place = strcmp(value, "any") == 0;
        return strcmp(value, "any") == 0 || strcmp(value, "keep") == 0
                   ? NULL
                   : "\"keep\" or \"any\" is expected";
    }
    return "it is unknown";
}

/* "0", "1" or a fraction, such as "0.05". */
static bool parse_probability(const char *text, uint64_t *value_p)
{
    uint64_t digits = 0, scale = 1;
    size_t length;

    if (strcmp(text, "1") == 0 || strcmp(text, "1.0") == 0) {
        *value_p = FAULT_CERTAIN;
        return true;
    }
    if (text[0] != '0' || (text[1] != '.' && text[1] != '\0'))
        return false;
    text += text[1] == '.' ? 2 : 1;
    length = strlen(text);
    if (length > FRACTION_DIGITS || strspn(text, "0123456789") != length)
        return false;
    for (; *text != '\0'; text++) {
        digits = digits * 10 + (uint64_t) (*text - '0');
        scale *= 10;
    }
    *value_p = (uint64_t) ((double) digits / (double) scale * (double) FAULT_CERTAIN);
    return true;
}

static bool parse_range(const char *text, uint64_t *range)
{
    char least[VALUE_LENGTH_MAX + 1];
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t) (colon - text) : strlen(text);

    memcpy(least, text, length);
    least[length] = '\0';
    if (!parse_number(least, US_MAX, &range[0]) ||
        !parse_number(colon != NULL ? colon + 1 : least, US_MAX, &range[1]) || range[0] > range[1])
        return false;
    range[0] *= 1000;
    range[1] *= 1000;
    return true;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *value_p)
{
    uint64_t value = 0;

    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        const uint64_t digit = (uint64_t) (*text - '0');

        if (*text < '0' || *text > '9' || value > (max - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *value_p = value;
    return true;
}
