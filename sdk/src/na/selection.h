/* SPDX-License-Identifier: BSD-3-Clause */
/* The report of what was picked for an init string, and why the others were not. */

#ifndef NA_SELECTION_H
#define NA_SELECTION_H

#include "na_ext.h"

/* Grows while an init string is tried. All functions take NULL for no report. */
struct na_selection *na_selection_create(const char *info_string);

/* Adds a candidate that was considered. Without memory the report stays shorter. */
void na_selection_add(struct na_selection *selection, const char *class_name,
                      const char *protocol_name, bool picked, const char *reason);

/* Says what was opened. False without memory. */
bool na_selection_finish(struct na_selection *selection, const char *class_name,
                         const char *protocol_name, const char *plugin_path);

/* One line about all candidates. */
void na_selection_print(const struct na_selection *selection, char *line, size_t size);

void na_selection_free(struct na_selection *selection);

#endif /* NA_SELECTION_H */
