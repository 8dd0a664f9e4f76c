/* SPDX-License-Identifier: BSD-3-Clause */
/* Plots as SVG. */

#include "hg_perf/perf_svg.h"

#include <math.h>

/* Sizes in pixels. */
#define CHART_WIDTH  560
#define CHART_HEIGHT 380
#define MARGIN_LEFT  76
#define MARGIN_RIGHT 24
#define MARGIN_TOP   84
#define PLOT_WIDTH   (CHART_WIDTH - MARGIN_LEFT - MARGIN_RIGHT)
#define PLOT_HEIGHT  (CHART_HEIGHT - MARGIN_TOP - 60)

/* Mapping of data to the page. */
struct scale {
    double left, top;    /* of the plot */
    double x_min, x_max; /* logarithms */
    double y_min, y_max;
};

/* Colours that colour-blind people can distinguish; in grey their order tells them apart. */
static const char *const colors[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                     "#e69f00", "#56b4e9", "#000000", "#7a5195"};
#define COLOR_COUNT (sizeof(colors) / sizeof(colors[0]))

static void chart_write(FILE *file, const struct perf_svg_chart *chart, double left);
static struct scale chart_scale(const struct perf_svg_chart *chart, double left);
static void chart_write_x_axis(FILE *file, const struct perf_svg_chart *chart,
                               const struct scale *scale);
static void chart_write_y_axis(FILE *file, const struct perf_svg_chart *chart,
                               const struct scale *scale);
static void series_write(FILE *file, const struct perf_svg_series *series,
                         const struct scale *scale, const char *color);
static void legend_write(FILE *file, const struct perf_svg_chart *chart, const struct scale *scale);
static void text_write(FILE *file, double x, double y, const char *style, const char *text);
static void format_value(char *text, size_t size, double value, double step);
static double scale_x(const struct scale *scale, double x);
static double scale_y(const struct scale *scale, double y);

bool perf_svg_write(FILE *file, const char *title, const struct perf_svg_chart *charts,
                    size_t chart_count)
{
    int width = CHART_WIDTH * (int) chart_count;

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"12\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, CHART_HEIGHT, width, CHART_HEIGHT);
    text_write(file, width / 2.0, 22,
               "text-anchor=\"middle\" font-size=\"15\" font-weight=\"bold\"", title);
    for (size_t i = 0; i < chart_count; i++)
        chart_write(file, &charts[i], (double) i * CHART_WIDTH);
    fprintf(file, "</svg>\n");
    return fflush(file) == 0 && ferror(file) == 0;
}

static void chart_write(FILE *file, const struct perf_svg_chart *chart, double left)
{
    struct scale scale = chart_scale(chart, left);

    text_write(file, scale.left + PLOT_WIDTH / 2.0, 46, "text-anchor=\"middle\" font-size=\"13\"",
               chart->title);
    chart_write_x_axis(file, chart, &scale);
    chart_write_y_axis(file, chart, &scale);
    fprintf(
        file,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#444\"/>\n",
        scale.left, scale.top, PLOT_WIDTH, PLOT_HEIGHT);
    for (size_t i = 0; i < chart->series_count; i++)
        series_write(file, &chart->series[i], &scale, colors[i % COLOR_COUNT]);
    legend_write(file, chart, &scale);
}

/* Scales to the data, with a margin of a twentieth on each side. */
static struct scale chart_scale(const struct perf_svg_chart *chart, double left)
{
    struct scale scale = {left + MARGIN_LEFT, MARGIN_TOP, INFINITY, -INFINITY, INFINITY, -INFINITY};
    double x_air, y_air;

    for (size_t i = 0; i < chart->series_count; i++) {
        const struct perf_svg_series *series = &chart->series[i];

        for (size_t j = 0; j < series->count; j++) {
            if (series->x[j] <= 0 || series->y[j] <= 0)
                continue;
            scale.x_min = fmin(scale.x_min, log10(series->x[j]));
            scale.x_max = fmax(scale.x_max, log10(series->x[j]));
            scale.y_min = fmin(scale.y_min, log10(series->y[j]));
            scale.y_max = fmax(scale.y_max, log10(series->y[j]));
        }
    }
    if (scale.x_min > scale.x_max)
        scale.x_min = scale.x_max = scale.y_min = scale.y_max = 0; /* no data at all */
    x_air = fmax((scale.x_max - scale.x_min) / 20, 0.05);
    y_air = fmax((scale.y_max - scale.y_min) / 20, 0.05);
    scale.x_min -= x_air;
    scale.x_max += x_air;
    scale.y_min -= y_air;
    scale.y_max += y_air;
    return scale;
}

static void chart_write_x_axis(FILE *file, const struct perf_svg_chart *chart,
                               const struct scale *scale)
{
    double bottom = scale->top + PLOT_HEIGHT, last = -INFINITY;
    char text[32];

    for (size_t i = 0; chart->series_count > 0 && i < chart->series[0].count; i++) {
        double value = chart->series[0].x[i], x;

        if (value <= 0)
            continue;
        x = scale_x(scale, value);
        fprintf(file, "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#ddd\"/>\n", x, scale->top, bottom);
        if (x - last < 34)
            continue; /* the label would touch the previous one */
        last = x;
        format_value(text, sizeof(text), value, 1024);
        text_write(file, x, bottom + 17, "text-anchor=\"middle\"", text);
    }
    text_write(file, scale->left + PLOT_WIDTH / 2.0, bottom + 40, "text-anchor=\"middle\"",
               chart->x_label);
}

/* Ticks at 1, 2 and 5 times the powers of ten; over many decades at the powers only. */
static void chart_write_y_axis(FILE *file, const struct perf_svg_chart *chart,
                               const struct scale *scale)
{
    static const double steps[] = {1, 2, 5};
    size_t step_count = scale->y_max - scale->y_min > 4 ? 1 : 3;
    char text[32], style[96];

    for (double decade = floor(scale->y_min); decade <= scale->y_max; decade += 1) {
        for (size_t i = 0; i < step_count; i++) {
            double value = steps[i] * pow(10, decade), y;

            if (log10(value) < scale->y_min || log10(value) > scale->y_max)
                continue;
            y = scale_y(scale, value);
            fprintf(file, "<path d=\"M%.1f %.1fH%.1f\" stroke=\"%s\"/>\n", scale->left, y,
                    scale->left + PLOT_WIDTH, i == 0 ? "#ccc" : "#eee");
            format_value(text, sizeof(text), value, 1000);
            text_write(file, scale->left - 6, y + 4, "text-anchor=\"end\"", text);
        }
    }
    (void) snprintf(style, sizeof(style),
                    "text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"", scale->left - 54,
                    scale->top + PLOT_HEIGHT / 2.0);
    text_write(file, scale->left - 54, scale->top + PLOT_HEIGHT / 2.0, style, chart->y_label);
}

static void series_write(FILE *file, const struct perf_svg_series *series,
                         const struct scale *scale, const char *color)
{
    const char *command = "M";

    fprintf(file, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", color);
    for (size_t i = 0; i < series->count; i++) {
        if (series->x[i] <= 0 || series->y[i] <= 0)
            continue;
        fprintf(file, "%s%.1f %.1f", command, scale_x(scale, series->x[i]),
                scale_y(scale, series->y[i]));
        command = "L";
    }
    fprintf(file, "\"/>\n");
    for (size_t i = 0; i < series->count; i++) {
        if (series->x[i] > 0 && series->y[i] > 0)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                    scale_x(scale, series->x[i]), scale_y(scale, series->y[i]), color);
    }
}

/* Writes the legend in a row above the plot, where no line can cross it. */
static void legend_write(FILE *file, const struct perf_svg_chart *chart, const struct scale *scale)
{
    double width = chart->series_count > 0 ? (double) PLOT_WIDTH / (double) chart->series_count : 0;

    for (size_t i = 0; i < chart->series_count; i++) {
        double x = scale->left + width * (double) i;

        fprintf(file, "<path d=\"M%.1f %.1fh18\" stroke=\"%s\" stroke-width=\"3\"/>\n", x,
                scale->top - 14, colors[i % COLOR_COUNT]);
        text_write(file, x + 23, scale->top - 10, "", chart->series[i].label);
    }
}

static void text_write(FILE *file, double x, double y, const char *style, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        default:
            fputc(*text, file);
        }
    }
    fprintf(file, "</text>\n");
}

/* Formats a number with a letter for its thousands; step is 1000 or 1024. */
static void format_value(char *text, size_t size, double value, double step)
{
    static const char *const letters[] = {"", "k", "M", "G", "T"};
    size_t letter = 0;

    while (value >= step && letter < 4) {
        value /= step;
        letter++;
    }
    (void) snprintf(text, size, "%.4g%s", value, letters[letter]);
}

static double scale_x(const struct scale *scale, double x)
{
    return scale->left + PLOT_WIDTH * (log10(x) - scale->x_min) / (scale->x_max - scale->x_min);
}

static double scale_y(const struct scale *scale, double y)
{
    return scale->top +
           PLOT_HEIGHT * (1 - (log10(y) - scale->y_min) / (scale->y_max - scale->y_min));
}
