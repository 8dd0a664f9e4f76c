# SPDX-License-Identifier: BSD-3-Clause
"""The points that are measured, and the contenders. measure.py measures the points, draw.py draws them."""

SIZES = [1 << 10, 16 << 10, 128 << 10, 1 << 20]
BULK_SIZES = [64 << 10, 1 << 20, 16 << 20]
BULK_IN_FLIGHT = 4
CLIENTS = [1, 10, 100, 1000]
CLIENT_PROCESSES = 4
CLIENT_TIMES = 4  # times the seconds of other experiments, because five processes share two processors
PAUSE_US = 1000
ENCODED_SIZES = [8, 64, 512, 4096]
BLOCKS = [64 << 10, 256 << 10, 1 << 20, 4 << 20]
DEPTHS = [1, 4]

OURS, RPC, BELOW = "Amalgam", "an RPC or messaging library", "what is below such libraries"


class Contender:
    """A library over one way between two processes: "tcp" is TCP of the loopback, "node" is within the machine."""

    def __init__(self, key, label, way, kind, program, busy, waits=True, most_clients=1000):
        self.key, self.label, self.way, self.kind, self.program = key, label, way, kind, program
        self.modes = [mode for mode, there in (("waiting", waits), ("busy", busy)) if there]
        self.most_clients = most_clients


CONTENDERS = [
    # An origin's endpoint over ofi+tcp takes 37 MB, so a thousand do not fit into the memory of the machine.
    Contender("ofi+tcp", "Amalgam ofi+tcp", "tcp", OURS, "hg_perf", True, most_clients=100),
    Contender("ucx+tcp", "Amalgam ucx+tcp", "tcp", OURS, "hg_perf", True),
    Contender("bmi+tcp", "Amalgam bmi+tcp", "tcp", OURS, "hg_perf", True),
    Contender("grpc-tcp", "gRPC", "tcp", RPC, "grpc", True),
    Contender("capnp-tcp", "Cap'n Proto", "tcp", RPC, "capnp", True),
    Contender("nng-tcp", "nng", "tcp", RPC, "nng", False),
    Contender("zeromq-tcp", "ZeroMQ", "tcp", RPC, "zeromq", False),
    Contender("sockets-tcp", "TCP sockets", "tcp", BELOW, "tcp", True),
    Contender("ucx-tcp", "UCX (tcp)", "tcp", BELOW, "ucx", True, most_clients=0),
    Contender("mpi-tcp", "MPI (tcp)", "tcp", BELOW, "mpi", True, waits=False, most_clients=0),
    Contender("na+sm", "Amalgam na+sm", "node", OURS, "hg_perf", True),
    Contender("mpi+static", "Amalgam mpi+static", "node", OURS, "hg_perf", True, waits=False, most_clients=0),
    Contender("grpc-node", "gRPC (Unix)", "node", RPC, "grpc", True),
    Contender("capnp-node", "Cap'n Proto (Unix)", "node", RPC, "capnp", True),
    Contender("nng-node", "nng (Unix)", "node", RPC, "nng", False),
    Contender("zeromq-node", "ZeroMQ (Unix)", "node", RPC, "zeromq", False),
    Contender("sockets-node", "Unix sockets", "node", BELOW, "tcp", True),
    Contender("ucx-node", "UCX (sm)", "node", BELOW, "ucx", True, most_clients=0),
    Contender("mpi-node", "MPI (vader)", "node", BELOW, "mpi", True, waits=False, most_clients=0),
]


def is_slow_to_start(point):
    """True for points that are measured only in every second round: a thousand workers of UCX take half a minute to connect."""
    return point[:2] == ("clients", "ucx+tcp") and point[3] == 1000


def points():
    """Yields all points of a round, as (experiment, contender's key, mode, x, in flight)."""
    for contender in CONTENDERS:
        for mode in contender.modes:
            yield "null", contender.key, mode, 8, 1
        if "waiting" in contender.modes:
            yield "paced", contender.key, "waiting", 8, 1
    for size in SIZES:
        for contender in CONTENDERS:
            for mode in contender.modes:
                yield "rpc", contender.key, mode, size, 1
    for size in BULK_SIZES:
        for contender in CONTENDERS:
            yield "bulk", contender.key, contender.modes[0], size, BULK_IN_FLIGHT
    for clients in CLIENTS:
        for contender in CONTENDERS:
            if clients <= contender.most_clients:
                yield "clients", contender.key, "waiting", clients, 1
    for size in ENCODED_SIZES:
        for encoding in "raw", "xdr":
            yield encoding, "na+sm", "busy", size, 1
    for block in BLOCKS:
        for depth in DEPTHS:
            for key in "na+sm", "ofi+tcp":
                yield "pipeline", key, "waiting", block, depth
