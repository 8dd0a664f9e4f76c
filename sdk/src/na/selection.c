/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of NA_Class_get_selection(). */

#include "na/selection.h"

#include "util/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANDIDATES_MAX 256

/* The public part is first, so that a pointer to it is one to the whole. It owns its strings. */
struct selection {
    struct na_selection report;
    struct na_selection_candidate candidates[CANDIDATES_MAX];
};

static char *copy(const char *string);
static void candidate_free(const struct na_selection_candidate *candidate);

struct na_selection *na_selection_create(const char *info_string)
{
    struct selection *selection = calloc(1, sizeof(*selection));

    if (selection == NULL)
        return NULL;
    selection->report.candidates = selection->candidates;
    selection->report.info_string = copy(info_string);
    if (selection->report.info_string == NULL) {
        free(selection);
        return NULL;
    }
    return &selection->report;
}

void na_selection_add(struct na_selection *report, const char *class_name,
                      const char *protocol_name, bool picked, const char *reason)
{
    struct selection *selection = (struct selection *) (void *) report;
    struct na_selection_candidate candidate = {.picked = picked};

    if (selection == NULL || report->candidate_count == CANDIDATES_MAX)
        return;
    candidate.class_name = copy(class_name);
    candidate.protocol_name = copy(protocol_name);
    candidate.reason = copy(reason);
    if (candidate.class_name == NULL || candidate.protocol_name == NULL ||
        candidate.reason == NULL) {
        candidate_free(&candidate);
        return;
    }
    selection->candidates[report->candidate_count++] = candidate;
}

bool na_selection_finish(struct na_selection *report, const char *class_name,
                         const char *protocol_name, const char *plugin_path)
{
    report->class_name = copy(class_name);
    report->protocol_name = copy(protocol_name);
    report->plugin_path = copy(plugin_path);
    return report->class_name != NULL && report->protocol_name != NULL &&
           report->plugin_path != NULL;
}

void na_selection_print(const struct na_selection *selection, char *line, size_t size)
{
    struct text text = TEXT_INITIALIZER;

    for (size_t i = 0; selection != NULL && i < selection->candidate_count; i++) {
        const struct na_selection_candidate *candidate = &selection->candidates[i];

        text_append(&text, "%s%s%s%s: %s", i > 0 ? "; " : "", candidate->class_name,
                    candidate->class_name[0] != '\0' && candidate->protocol_name[0] != '\0' ? "+"
                                                                                            : "",
                    candidate->protocol_name, candidate->reason);
    }
    (void) snprintf(line, size, "%s", text_get(&text));
    text_free(&text);
}

void na_selection_free(struct na_selection *selection)
{
    if (selection == NULL)
        return;
    for (size_t i = 0; i < selection->candidate_count; i++)
        candidate_free(&selection->candidates[i]);
    free((void *) (uintptr_t) selection->info_string);
    free((void *) (uintptr_t) selection->class_name);
    free((void *) (uintptr_t) selection->protocol_name);
    free((void *) (uintptr_t) selection->plugin_path);
    free(selection);
}

static char *copy(const char *string)
{
    return strdup(string != NULL ? string : "");
}

static void candidate_free(const struct na_selection_candidate *candidate)
{
    free((void *) (uintptr_t) candidate->class_name);
    free((void *) (uintptr_t) candidate->protocol_name);
    free((void *) (uintptr_t) candidate->reason);
}
