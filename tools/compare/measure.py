# SPDX-License-Identifier: BSD-3-Clause
"""Measures all points of plan.py and writes the data file. All contenders take turns in each round. With EXPERIMENT,
only the numbers of that experiment are measured and replaced in the file:
measure.py BINARIES FILE [ROUNDS [SECONDS [EXPERIMENT]]]"""

import json
import os
import platform
import re
import subprocess
import sys
import time

import plan

MPIEXEC = ["mpiexec.openmpi", "-quiet", "--bind-to", "none", "--mca", "odls_base_sigkill_timeout", "0"]
# In a virtual machine a new page can cost more than the measured operation, and some contenders allocate each message.
# Therefore the C library keeps freed memory, for all contenders.
TUNABLES = "glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=1073741824:glibc.malloc.top_pad=16777216:glibc.malloc.arena_max=1"
UNITS = {"null": "us", "paced": "us", "rpc": "us", "bulk": "MB/s", "clients": "/s", "raw": "us", "xdr": "us", "pipeline": "MB/s"}


def main():
    binaries, path = sys.argv[1], sys.argv[2]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    seconds = sys.argv[4] if len(sys.argv) > 4 else "0.12"
    only = sys.argv[5] if len(sys.argv) > 5 else None
    points, values, versions = list(plan.points()), {}, {}
    if only:
        points = [point for point in points if point[0] == only]
        values = values_of_others(path, only)
    begin = time.monotonic()
    for i in range(rounds):
        for point in points:
            if i % 2 == 0 or not plan.is_slow_to_start(point):
                values.setdefault(point, []).append(measure(binaries, seconds, versions, *point))
        print(f"round {i + 1} of {rounds}: {time.monotonic() - begin:.0f} s", flush=True)
    if only:
        with open(path, encoding="utf-8") as file:
            known = json.load(file)["versions"]
    else:
        known = versions_of(binaries, versions)
    write(path, known, rounds, seconds, values)


def values_of_others(path, only):
    with open(path, encoding="utf-8") as file:
        return {(point["experiment"], point["of"], point["mode"], point["x"], point["in_flight"]): point["values"]
                for point in json.load(file)["points"] if point["experiment"] != only}


def measure(binaries, seconds, versions, experiment, key, mode, x, in_flight):
    """Measures one point, and returns the number in the unit of the experiment."""
    contender = next(contender for contender in plan.CONTENDERS if contender.key == key)
    if experiment in ("raw", "xdr", "pipeline") or (experiment == "paced" and contender.kind == plan.OURS):
        program, command = "compare_amalgam", ["--transport", key, "--mode", experiment]
        command += ["--busy", str(int(mode == "busy")), "--size", str(x), "--in-flight", str(in_flight)]
    elif contender.program == "hg_perf":
        program, command = "hg_perf", hg_perf_options(experiment, key, mode, x, in_flight)
    else:
        program, command = "compare_" + contender.program, options(experiment, contender, mode, x, in_flight)
    if experiment == "paced":
        command += ["--pause", str(plan.PAUSE_US)]
    times = plan.CLIENT_TIMES if experiment == "clients" else 1
    command = [f"{binaries}/{program}"] + command + ["--seconds", f"{float(seconds) * times:g}"]
    result = run(mpi(contender, command), environment(contender))
    if "name" in result:
        versions[contender.program] = result["version"]
    latency = result["p50_us"] if "p50_us" in result else result["latency_us"]["p50"]
    size = 16 << 20 if experiment == "pipeline" else x
    value = {"us": latency, "MB/s": result["rate_per_s"] * size / 1e6, "/s": result["rate_per_s"]}
    return float(f"{value[UNITS[experiment]]:.4g}")


def hg_perf_options(experiment, key, mode, x, in_flight):
    options = ["bulk" if experiment == "bulk" else "rpc", "--json", "--init", key, "--in-flight", str(in_flight)]
    if experiment == "clients":
        options += ["--clients", str(x), "--processes", str(min(x, plan.CLIENT_PROCESSES))]
    else:
        options += ["--size", str(x)]
    return options + (["--busy"] if mode == "busy" else [])


def options(experiment, contender, mode, x, in_flight):
    """Returns the options of a program in this folder. Bulk data are requests with answers of 8 bytes; in all other
    experiments the answer has the size of the request."""
    size = 8 if experiment == "clients" else x
    options = ["--size", str(size), "--reply", str(8 if experiment == "bulk" else size)]
    options += ["--in-flight", str(in_flight), "--busy", str(int(mode == "busy"))]
    options += ["--transport", "tcp" if contender.way == "tcp" else "ipc"]
    if experiment == "clients":
        options += ["--clients", str(x), "--processes", str(plan.CLIENT_PROCESSES)]
    return options


def mpi(contender, command):
    """Returns the command line. For MPI and mpi+static it starts two ranks; other commands are returned unchanged."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    if contender.program == "mpi":
        tcp = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
        return MPIEXEC + root + (tcp if contender.way == "tcp" else []) + ["-n", "2"] + command
    if contender.key != "mpi+static":
        return command
    listen = [command[0], command[1], "--listen", "--init", contender.key, "--busy"]
    return MPIEXEC + root + ["-n", "1"] + listen + [":", "-n", "1"] + command + ["--target", "mpi+static://0"]


def environment(contender):
    own = dict(os.environ, GLIBC_TUNABLES=TUNABLES)
    if contender.program == "ucx":
        own["UCX_TLS"] = "tcp" if contender.way == "tcp" else "sm"
    return own


def run(command, environment):
    """Runs a command, as root with real-time priority, and returns the JSON object that it prints. A command that prints
    none is run up to three times, because other users of the machine can make it fail."""
    if os.geteuid() == 0:
        command = ["chrt", "-r", "10"] + command
    for last in False, False, True:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, check=False)
        text = done.stdout.decode()
        try:
            return json.loads(text[text.index("{"):text.rindex("}") + 1])
        except ValueError:
            if last:
                sys.exit(f"{' '.join(command)}:\n{text}{done.stderr.decode()}")


def versions_of(binaries, versions):
    """Returns the versions of the libraries, the compiler, the kernel and the system by name."""
    def output(command, index=-1):
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[index]

    return {
        "Amalgam": project_version(),
        "gRPC": versions["grpc"], "Cap'n Proto": versions["capnp"], "nng": versions["nng"],
        "ZeroMQ": versions["zeromq"], "UCX": versions["ucx"], "Open MPI": versions["mpi"].split()[-1].lstrip("v"),
        "libfabric": output(["pkg-config", "--modversion", "libfabric"]),
        "compiler": "gcc " + output(["gcc", "-dumpfullversion"]),
        "kernel": platform.release().split("-")[0],
        "system": system_name(),
    }


def project_version():
    with open(os.path.join(os.path.dirname(__file__), "../../CMakeLists.txt"), encoding="utf-8") as file:
        return re.search(r"project\(amalgam VERSION ([0-9.]+)", file.read()).group(1)


def system_name():
    with open("/etc/os-release", encoding="utf-8") as file:
        return next(line.split('"')[1] for line in file if line.startswith("PRETTY_NAME="))


def processor_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next(line.split(":")[1].strip() for line in file if line.startswith("model name"))


def write(path, versions, rounds, seconds, values):
    """Writes the data file, with a line for each point, so that a diff shows which points changed."""
    machine = {"processor": processor_name(), "processors": os.cpu_count(), "virtual": is_virtual()}
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"machine": %s,\n' % json.dumps(machine))
        file.write('"versions": %s,\n' % json.dumps(versions))
        file.write('"rounds": %d, "seconds": %s,\n"points": [\n' % (rounds, seconds))
        lines = []
        for point in plan.points():
            experiment, key, mode, x, in_flight = point
            lines.append(json.dumps({"experiment": experiment, "of": key, "mode": mode, "x": x, "in_flight": in_flight,
                                     "unit": UNITS[experiment], "values": values[point]}))
        file.write(",\n".join(lines) + "\n]}\n")


def is_virtual():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return " hypervisor" in file.read()


if __name__ == "__main__":
    main()
