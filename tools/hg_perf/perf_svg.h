/* SPDX-License-Identifier: BSD-3-Clause */
/* Plots as SVG: charts side by side, logarithmic axes, one line for each series, a legend. */

#ifndef AMALGAM_PERF_SVG_H
#define AMALGAM_PERF_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Points of a line; values of zero or less have no place on a logarithmic axis: left out. */
struct perf_svg_series {
    char label[48];
    const double *x;
    const double *y;
    size_t count;
};

struct perf_svg_chart {
    const char *title;
    const char *x_label; /* x is in bytes; its ticks are the points of the first series */
    const char *y_label;
    const struct perf_svg_series *series;
    size_t series_count;
};

/* Writes one picture; false if writing failed. */
bool perf_svg_write(FILE *file, const char *title, const struct perf_svg_chart *charts,
                    size_t chart_count);

#endif /* AMALGAM_PERF_SVG_H */
