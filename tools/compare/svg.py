# SPDX-License-Identifier: BSD-3-Clause
"""Draws charts with logarithmic axes as SVG, which are readable on light and dark pages."""

import math
from xml.sax.saxutils import escape

WIDTH, PLOT_LEFT, PLOT_RIGHT = 760, 76, 570
PANEL_HEIGHT, PLOT_TOP, PLOT_BOTTOM = 320, 44, 270
ROW_HEIGHT = 22

STYLE = """.title { font-weight: bold; }
text { fill: #1b1b1b; font-family: Helvetica, Arial, sans-serif; font-size: 12px; }
.page { fill: #ffffff; } .grid { stroke: #dddddd; } .frame { stroke: #555555; fill: none; }
.mark { fill: #555555; stroke: #555555; }
@media (prefers-color-scheme: dark) {
text { fill: #e6e6e6; }
.page { fill: #15191f; } .grid { stroke: #363c44; } .frame { stroke: #aaaaaa; }
.mark { fill: #aaaaaa; stroke: #aaaaaa; }
}"""


class Series:
    """A line of a chart. Each point is (x, median, least, most)."""

    def __init__(self, label, color, points, width=1.5, dashes=""):
        self.label, self.color, self.points, self.width, self.dashes = label, color, points, width, dashes


class Axis:
    """A logarithmic axis: maps values to coordinates between first and last."""

    def __init__(self, values, first, last):
        self.low, self.high = math.log10(min(values)), math.log10(max(values))
        air = max((self.high - self.low) / 20, 0.05)
        self.low, self.high = self.low - air, self.high + air
        self.first, self.last = first, last

    def place(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.first + (self.last - self.first) * part

    def ticks(self):
        """Yields the values of the ticks: 1, 2 and 5 times the powers of ten; on a long axis the powers of ten only."""
        steps = (1,) if self.high - self.low > 2.5 else (1, 2, 5)
        for decade in range(math.floor(self.low), math.ceil(self.high) + 1):
            for step in steps:
                if self.low <= math.log10(step) + decade <= self.high:
                    yield step * 10.0 ** decade


def short(value, step=1000):
    """Returns the number with a letter for its power of step, such as 16k."""
    letters = ["", "k", "M", "G"]
    while value >= step and len(letters) > 1:
        value, letters = value / step, letters[1:]
    return f"{value:g}{letters[0]}"


def picture(title, panels, height):
    """Returns the SVG text of a picture. The panels are one below the other."""
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
             f'viewBox="0 0 {WIDTH} {height}" role="img">',
             f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>",
             '<rect class="page" width="100%" height="100%"/>']
    for panel in panels:
        lines += panel
    return "\n".join(lines + ["</svg>"]) + "\n"


def text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}"{" " + more if more else ""}>{escape(words)}</text>'


def line_panel(top, title, x_label, y_label, x_step, series):
    """Draws a chart of lines. The legend on the right lists the lines in the order of their right ends."""
    xs = sorted({point[0] for one in series for point in one.points})
    x_axis = Axis(xs, PLOT_LEFT, PLOT_RIGHT)
    y_axis = Axis([value for one in series for point in one.points for value in point[1:]], top + PLOT_BOTTOM, top + PLOT_TOP)
    lines = [text(PLOT_LEFT, top + 26, title, 'class="title"')]
    for x in xs:
        at = x_axis.place(x)
        lines.append(f'<path class="grid" d="M{at:.1f} {top + PLOT_TOP}V{top + PLOT_BOTTOM}"/>')
        lines.append(text(at, top + PLOT_BOTTOM + 17, short(x, x_step), 'text-anchor="middle"'))
    for y in y_axis.ticks():
        at = y_axis.place(y)
        lines.append(f'<path class="grid" d="M{PLOT_LEFT} {at:.1f}H{PLOT_RIGHT}"/>')
        lines.append(text(PLOT_LEFT - 6, at + 4, short(y), 'text-anchor="end"'))
    lines.append(text((PLOT_LEFT + PLOT_RIGHT) / 2, top + PLOT_BOTTOM + 36, x_label, 'text-anchor="middle"'))
    lines.append(text(PLOT_LEFT - 50, top + (PLOT_TOP + PLOT_BOTTOM) / 2, y_label,
                      f'text-anchor="middle" transform="rotate(-90 {PLOT_LEFT - 50} {top + (PLOT_TOP + PLOT_BOTTOM) / 2:.0f})"'))
    lines.append(f'<rect class="frame" x="{PLOT_LEFT}" y="{top + PLOT_TOP}" width="{PLOT_RIGHT - PLOT_LEFT}" '
                 f'height="{PLOT_BOTTOM - PLOT_TOP}"/>')
    for one in series:
        lines += line(one, x_axis, y_axis)
    for i, one in enumerate(sorted(series, key=lambda one: (one.points[-1][0], one.points[-1][1]), reverse=True)):
        at = top + PLOT_TOP + 8 + i * 20
        lines.append(f'<path d="M{PLOT_RIGHT + 14} {at}h24" {stroke(one)}/>')
        lines.append(text(PLOT_RIGHT + 44, at + 4, one.label))
    return lines


def stroke(one):
    dashes = f' stroke-dasharray="{one.dashes}"' if one.dashes else ""
    return f'fill="none" stroke="{one.color}" stroke-width="{one.width}"{dashes}'


def line(one, x_axis, y_axis):
    """Draws a line through the medians, and at each point a thin line from the least to the most."""
    places = [[x_axis.place(point[0])] + [y_axis.place(value) for value in point[1:]] for point in one.points]
    lines = [f'<path {stroke(one)} d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y, _, _ in places) + '"/>']
    for x, y, least, most in places:
        lines.append(f'<path d="M{x:.1f} {least:.1f}V{most:.1f}" stroke="{one.color}" stroke-width="0.7"/>')
        lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{one.color}"/>')
    return lines


MARKS = {
    "disc": '<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5" style="fill:{color};stroke:{color}"/>',
    "ring": '<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5" style="fill:none;stroke:{color};stroke-width:2"/>',
    "square": '<path class="mark" d="M{x:.1f} {y:.1f}m-4-4h8v8h-8z" style="fill:{color};stroke:{color}"/>',
}


def dot_panel(top, title, x_label, x_axis, rows):
    """Draws a row for each (label, color, [(mark, median, least, most)]). Returns the lines and the height."""
    bottom = top + PLOT_TOP + len(rows) * ROW_HEIGHT
    lines = [text(PLOT_LEFT, top + 26, title, 'class="title"')]
    for x in x_axis.ticks():
        at = x_axis.place(x)
        lines.append(f'<path class="grid" d="M{at:.1f} {top + PLOT_TOP}V{bottom}"/>')
        lines.append(text(at, bottom + 17, short(x), 'text-anchor="middle"'))
    for i, (label, color, dots) in enumerate(rows):
        y = top + PLOT_TOP + (i + 0.5) * ROW_HEIGHT
        lines.append(f'<path class="grid" d="M{x_axis.first} {y:.1f}H{x_axis.last}"/>')
        lines.append(text(x_axis.first - 8, y + 4, label, 'text-anchor="end"'))
        for mark, median, least, most in dots:
            places = x_axis.place(least), x_axis.place(most)
            lines.append(f'<path d="M{places[0]:.1f} {y:.1f}H{places[1]:.1f}" stroke="{color}"/>')
            lines.append(MARKS[mark].format(x=x_axis.place(median), y=y, color=color))
    lines.append(f'<rect class="frame" x="{x_axis.first}" y="{top + PLOT_TOP}" width="{x_axis.last - x_axis.first}" '
                 f'height="{bottom - top - PLOT_TOP}"/>')
    lines.append(text((x_axis.first + x_axis.last) / 2, bottom + 36, x_label, 'text-anchor="middle"'))
    return lines, bottom + 46 - top


def key(top, entries):
    """Draws the legend of a dot panel: the marks and their meanings, in a row."""
    lines, x = [], 170
    for mark, words in entries:
        lines.append(MARKS[mark].format(x=x, y=top, color="#7f7f7f"))
        lines.append(text(x + 12, top + 4, words))
        x += 40 + 6 * len(words)
    return lines
