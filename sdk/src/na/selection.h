/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of NA_Class_get_selection(): which offer was picked, and why the others were not. */

#ifndef NA_SELECTION_H
#define NA_SELECTION_H

#include "na_ext.h"

/* Returns an empty report, or NULL if there is no memory. */
struct na_selection *na_selection_create(const char *info_string);

/* Adds a candidate, unless the report is NULL, full or there is no memory. */
void na_selection_add(struct na_selection *selection, const char *class_name,
                      const char *protocol_name, bool picked, const char *reason);

/* Sets what was opened. Returns false if there is no memory. */
bool na_selection_finish(struct na_selection *selection, const char *class_name,
                         const char *protocol_name, const char *plugin_path);

/* Writes one line with all candidates. The report may be NULL. */
void na_selection_print(const struct na_selection *selection, char *line, size_t size);

/* Frees a report, or does nothing for NULL. */
void na_selection_free(struct na_selection *selection);

#endif /* NA_SELECTION_H */
