# SPDX-License-Identifier: BSD-3-Clause
"""Draws the pictures from the data file, and replaces the tables in the page by those of the data:
draw.py DATA PAGE PICTURES NEW_PAGE. There is no other input, so the same data give the same files."""

import json
import os
import re
import statistics
import sys

import plan
import svg

WAYS = {"tcp": "Over TCP of the loopback", "node": "Within the node"}
COLORS = {"ofi+tcp": "#0072b2", "ucx+tcp": "#56b4e9", "bmi+tcp": "#009e73", "na+sm": "#0072b2", "mpi+static": "#56b4e9",
          "grpc": "#d55e00", "capnp": "#e69f00", "nng": "#cc79a7", "zeromq": "#9467bd",
          "sockets": "#7f7f7f", "ucx": "#a0674b", "mpi": "#b0a820"}
NULL_COLUMNS = [("null", "waiting", "disc", "waiting"), ("null", "busy", "ring", "busy"),
                ("paced", "waiting", "square", "waiting, a pause before each")]


class Data:
    """The measurements of the data file: the median of each point, with the least and the most."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.raw = json.load(file)
        self.series = {(point["experiment"], point["of"], point["mode"], point["x"], point["in_flight"]): point["values"]
                       for point in self.raw["points"]}

    def median(self, *point):
        return statistics.median(self.series[point]) if point in self.series else None

    def point(self, x, *point):
        return (x, self.median(*point), min(self.series[point]), max(self.series[point]))


def main():
    data_path, page_path, pictures, new_page = sys.argv[1:]
    data = Data(data_path)
    for name, content in draw(data).items():
        with open(os.path.join(pictures, f"performance-{name}.svg"), "w", encoding="utf-8") as file:
            file.write(content)
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    for name, content in tables(data).items():
        page, count = re.subn(rf"(<!-- data: {name} -->\n).*?(<!-- end -->)", lambda match: match[1] + content + match[2],
                              page, flags=re.S)
        if count != 1:
            sys.exit(f"{page_path} has {count} places for '{name}'")
    with open(new_page, "w", encoding="utf-8") as file:
        file.write(page)


def draw(data):
    return {
        "null": draw_null(data),
        "rpc-waiting": draw_ways(data, "RPC by size, waiting", "waiting", rpc_series, "µs, there and back", 1024, "bytes each way"),
        "rpc-busy": draw_ways(data, "RPC by size, busy", "busy", rpc_series, "µs, there and back", 1024, "bytes each way"),
        "bulk": draw_ways(data, "bulk data", "", bulk_series, "MB/s", 1024, "bytes of each transfer, 4 in flight"),
        "clients": draw_ways(data, "null RPCs by clients", "", clients_series, "RPCs a second", 1000, "clients, one RPC of each in flight"),
        "paper": draw_paper(data),
    }


def color(contender):
    return COLORS.get(contender.key) or COLORS[contender.key.split("-")[0]]


def series_of(data, contender, xs, point):
    """Returns a list with one line through the points that were measured, or an empty list if there are none."""
    points = [data.point(x, *point(x)) for x in xs if point(x) in data.series]
    width, dashes = {plan.OURS: (2.6, ""), plan.RPC: (1.5, ""), plan.BELOW: (1.5, "5 3")}[contender.kind]
    return [svg.Series(contender.label, color(contender), points, width, dashes)] if points else []


def rpc_series(data, contender, mode):
    return series_of(data, contender, [8] + plan.SIZES,
                     lambda x: ("null" if x == 8 else "rpc", contender.key, mode, x, 1))


def bulk_series(data, contender, _):
    return series_of(data, contender, plan.BULK_SIZES,
                     lambda x: ("bulk", contender.key, contender.modes[0], x, plan.BULK_IN_FLIGHT))


def clients_series(data, contender, _):
    return series_of(data, contender, plan.CLIENTS, lambda x: ("clients", contender.key, "waiting", x, 1))


def draw_ways(data, title, mode, series, y_label, x_step, x_label):
    """Draws one panel for TCP and one for transports within the node."""
    panels = []
    for i, (way, name) in enumerate(WAYS.items()):
        lines = [line for contender in plan.CONTENDERS if contender.way == way for line in series(data, contender, mode)]
        panels.append(svg.line_panel(i * svg.PANEL_HEIGHT, f"{name}: {title}",
                                     x_label, y_label, x_step, lines))
    return svg.picture(title, panels, len(panels) * svg.PANEL_HEIGHT)


def draw_null(data):
    panels, top = [svg.key(18, [(mark, words) for _, _, mark, words in NULL_COLUMNS])], 24
    axis = svg.Axis([value for (experiment, *_), values in data.series.items() if experiment in ("null", "paced")
                     for value in values], 170, svg.WIDTH - 24)
    for way, name in WAYS.items():
        rows = []
        for contender in plan.CONTENDERS:
            if contender.way == way:
                dots = [(mark,) + data.point(8, experiment, contender.key, mode, 8, 1)[1:]
                        for experiment, mode, mark, _ in NULL_COLUMNS if (experiment, contender.key, mode, 8, 1) in data.series]
                rows.append((contender.label, color(contender), dots))
        lines, height = svg.dot_panel(top, f"{name}: null RPC", "µs, there and back", axis, rows)
        panels.append(lines)
        top += height
    return svg.picture("Null RPC", panels, top)


def draw_paper(data):
    encoded = [svg.Series(name, tint, [data.point(x, experiment, "na+sm", "busy", x, 1) for x in plan.ENCODED_SIZES], 2)
               for experiment, name, tint in (("raw", "raw", "#0072b2"), ("xdr", "XDR", "#d55e00"))]
    blocks = [svg.Series(f"{key}, {depth} in flight", tint,
                         [data.point(x, "pipeline", key, "waiting", x, depth) for x in plan.BLOCKS], 2, "" if depth > 1 else "5 3")
              for key, tint in (("na+sm", "#0072b2"), ("ofi+tcp", "#d55e00")) for depth in plan.DEPTHS]
    return svg.picture("Experiments of the paper", [
        svg.line_panel(0, "RPC over na+sm by encoding, busy", "bytes of 64-bit integers each way", "µs, there and back", 1024, encoded),
        svg.line_panel(svg.PANEL_HEIGHT, "Pull of 16 MiB in blocks", "bytes of a block", "MB/s", 1024, blocks),
    ], 2 * svg.PANEL_HEIGHT)


def tables(data):
    result = {"machine": machine(data), "beside": beside(data)}
    for way in WAYS:
        contenders = [contender for contender in plan.CONTENDERS if contender.way == way]
        result[f"null {way}"] = table(["µs", "waiting", "busy", "waiting, with pauses"], [
            [contender.label] + [number(data.median(experiment, contender.key, mode, 8, 1)) for experiment, mode, _, _ in NULL_COLUMNS]
            for contender in contenders])
        result[f"rpc {way}"] = table(["µs, waiting / busy"] + [size(x) for x in plan.SIZES], [
            [contender.label] + [" / ".join(number(data.median("rpc", contender.key, mode, x, 1)) for mode in ("waiting", "busy"))
                                 for x in plan.SIZES] for contender in contenders])
        result[f"bulk {way}"] = table(["MB/s"] + [size(x) for x in plan.BULK_SIZES], [
            [contender.label + ("" if "waiting" in contender.modes else " (busy)")] +
            [number(data.median("bulk", contender.key, contender.modes[0], x, plan.BULK_IN_FLIGHT)) for x in plan.BULK_SIZES]
            for contender in contenders])
        result[f"clients {way}"] = table(["RPCs a second, clients:"] + [str(x) for x in plan.CLIENTS], [
            [contender.label] + [number(data.median("clients", contender.key, "waiting", x, 1)) for x in plan.CLIENTS]
            for contender in contenders if contender.most_clients > 0])
    result["encoding"] = table(["µs, busy"] + [size(x) for x in plan.ENCODED_SIZES], [
        [name] + [number(data.median(experiment, "na+sm", "busy", x, 1)) for x in plan.ENCODED_SIZES]
        for experiment, name in (("raw", "raw"), ("xdr", "XDR"))])
    result["pipeline"] = table(["MB/s"] + [size(x) for x in plan.BLOCKS], [
        [f"`{key}`, {depth} in flight"] + [number(data.median("pipeline", key, "waiting", x, depth)) for x in plan.BLOCKS]
        for key in ("na+sm", "ofi+tcp") for depth in plan.DEPTHS])
    return result


def machine(data):
    about, versions = data.raw["machine"], dict(data.raw["versions"])
    kernel, system, compiler = versions.pop("kernel"), versions.pop("system"), versions.pop("compiler")
    kind = "virtual machine that others use, too" if about["virtual"] else "machine"
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (f"- A {kind}: {about['processors']} processors ({about['processor']}), Linux {kernel}, {system}, {compiler}, built with "
            f"`CMAKE_BUILD_TYPE=Release`.\n- {libraries}.\n"
            f"- Medians of {data.raw['rounds']} rounds, in which all take turns; {data.raw['seconds']} s for each number, "
            f"{data.raw['seconds'] * plan.CLIENT_TIMES:g} s with many clients.\n")


def beside(data):
    """Returns the table of ratios: the fastest transport of Amalgam against the fastest other library. Below 1 the other
    library is faster."""
    rows = []
    for words, experiment, mode, x, in_flight, is_time in comparisons():
        row = [words]
        for way in WAYS:
            ours = best(data, way, plan.OURS, experiment, mode, x, in_flight, is_time)
            for kind in (plan.RPC, plan.BELOW):
                theirs = best(data, way, kind, experiment, mode, x, in_flight, is_time)
                row.append(ratio(ours, theirs, is_time))
        rows.append(row)
    return table(["", "TCP: RPC, messaging", "TCP: below", "node: RPC, messaging", "node: below"], rows)


def comparisons():
    yield "null RPC, waiting", "null", "waiting", 8, 1, True
    yield "null RPC, waiting, with pauses", "paced", "waiting", 8, 1, True
    yield "null RPC, busy", "null", "busy", 8, 1, True
    for mode in ("waiting", "busy"):
        for x in plan.SIZES:
            yield f"RPC of {size(x)}, {mode}", "rpc", mode, x, 1, True
    for x in plan.BULK_SIZES:
        yield f"bulk of {size(x)}, waiting", "bulk", "waiting", x, plan.BULK_IN_FLIGHT, False
    for x in plan.CLIENTS:
        yield f"{x} client{'s' if x > 1 else ''}", "clients", "waiting", x, 1, False


def best(data, way, kind, experiment, mode, x, in_flight, is_time):
    """Returns the best number among the contenders of a kind, with the contender's label."""
    found = [(data.median(experiment, contender.key, mode, x, in_flight), contender.label) for contender in plan.CONTENDERS
             if contender.way == way and contender.kind == kind and (experiment, contender.key, mode, x, in_flight) in data.series]
    return (min if is_time else max)(found) if found else None


def ratio(ours, theirs, is_time):
    if ours is None or theirs is None:
        return ""
    times = theirs[0] / ours[0] if is_time else ours[0] / theirs[0]
    words = f"{times:.2f}" if times < 10 else f"{times:.0f}"
    return f"{words if times >= 1 else '**' + words + '**'} ({theirs[1].split(' (')[0]})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value):
    """Returns the number with three digits, or a dash if the point was not measured."""
    if value is None:
        return "–"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 100 else f"{value:.3g}"


def size(count):
    return svg.short(count, 1024).replace("k", " KiB").replace("M", " MiB") + ("" if count >= 1024 else " B")


if __name__ == "__main__":
    main()
