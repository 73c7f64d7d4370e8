# SPDX-License-Identifier: Apache-2.0
"""The matrix of perftest: all eight tools, their transports, ways of connecting, and options.

A cell is an Entry like any other. By default it must pass; KNOWN has the cells that do not, and
why.
"""

from dataclasses import dataclass

from entry import ONE_HOST, PLACES, Entry, Known, Program

PROGRAM = Program("perftest", "Debian `perftest`", "ib_send_bw --version", r"Version: (\S+)")

TOOLS = {
    "ib_send_bw": ("RC", "UC", "UD"),
    "ib_send_lat": ("RC", "UC", "UD"),
    "ib_write_bw": ("RC", "UC"),
    "ib_write_lat": ("RC", "UC"),
    "ib_read_bw": ("RC",),
    "ib_read_lat": ("RC",),
    "ib_atomic_bw": ("RC",),
    "ib_atomic_lat": ("RC",),
}
EXCHANGES = {"TCP": "", "-R": "-R", "-z": "-z"}

ALL = tuple(TOOLS)
BANDWIDTH = tuple(tool for tool in TOOLS if tool.endswith("_bw"))
LATENCY = tuple(tool for tool in TOOLS if tool.endswith("_lat"))
SEND = ("ib_send_bw", "ib_send_lat")
WRITE = ("ib_write_bw", "ib_write_lat")
READ = ("ib_read_bw", "ib_read_lat")
NO_ATOMICS = SEND + WRITE + READ
ROW = r"^ *\d+[ \t]+\d+(?:[ \t]+(?:\d+\.\d+|-?nan))+[ \t]*$"


@dataclass(frozen=True)
class Option:
    """Options of perftest, and the tools and transports that have them.

    rows     the number of rows in the result
    counted  whether -n applies; otherwise the option says how long the run takes
    endless  the run does not end; it must still be there after this many seconds
    limit_s  the limit on an idle machine is a small part of this
    """

    text: str
    tools: tuple[str, ...] = ALL
    connections: tuple[str, ...] = ("RC",)
    rows: int = 1
    counted: bool = True
    endless: float = 0
    limit_s: float = 30


OPTIONS = [
    Option("-a -n 20", NO_ATOMICS, rows=23, counted=False, limit_s=120),
    Option("-a -n 20", SEND, ("UC",), rows=23, counted=False, limit_s=120),
    # 2 bytes to 1 KiB, the MTU of the path
    Option("-a -n 20", SEND, ("UD",), rows=10, counted=False, limit_s=120),
    Option("-q 4", BANDWIDTH, ("RC", "UC", "UD")),
    Option("-b", BANDWIDTH, ("RC", "UC", "UD")),
    Option("-b -q 4 -t 16", ("ib_send_bw", "ib_write_bw")),
    # -n is a multiple of -Q, so the case above does not arise (KNOWN).
    Option("-b -q 4 -t 16 -n 208", ("ib_send_bw", "ib_write_bw"), ("RC", "UC"), counted=False),
    Option("-b -q 4 -t 16 -Q 1", ("ib_send_bw", "ib_write_bw"), ("RC", "UC")),
    Option("-b -q 8 -t 8", ("ib_send_bw", "ib_write_bw")),
    Option("-e", SEND + READ + ("ib_atomic_bw", "ib_atomic_lat"), ("RC", "UC", "UD")),
    Option("-e -X 1", SEND + READ),
    Option("-I 64 -s 64", SEND + WRITE, ("RC", "UC", "UD")),
    Option("-D 2", ALL, counted=False),
    Option("-D 2", SEND, ("UD",), counted=False),
    Option("--run_infinitely -D 1", BANDWIDTH, counted=False, endless=4),
    Option("--run_infinitely -D 1", ("ib_send_bw",), ("UC", "UD"), counted=False, endless=4),
    Option("-s 1", NO_ATOMICS),
    Option("-s 8388608 -n 5", NO_ATOMICS, counted=False),
    Option("-t 1", BANDWIDTH),
    Option("-l 8", ("ib_send_bw", "ib_write_bw", "ib_read_bw")),
    Option("--recv_post_list=8", ("ib_send_bw",)),
    Option("-Q 16", BANDWIDTH),
    Option("-r 16", SEND),
    Option("--use-srq", SEND, ("RC", "UD")),
    Option("-W counters/port_xmit_data", ("ib_send_bw",)),
    Option("--use_hugepages", ("ib_send_bw", "ib_write_bw")),
    Option("--use_old_post_send", ALL),
    Option("--mr_per_qp -q 2", ("ib_send_bw", "ib_write_bw", "ib_read_bw")),
    Option("--inline_recv=32 -s 16", ("ib_send_bw",)),
    Option("--odp", ("ib_send_bw",)),
    Option("--ipv6", ("ib_send_bw",)),
    Option("-m 512", SEND),
    Option("-u 10", ("ib_send_bw",)),
    Option("-S 3 --tclass=32", ("ib_write_bw",)),
    Option("-R -T 32", ("ib_send_bw",)),
    Option("-g", SEND, ("UD",)),
    Option("--report-both -b", ("ib_send_bw",)),
    Option("--cpu_util -D 2", ("ib_send_bw",), counted=False),
    Option("-w 1 -N", ("ib_write_bw",)),
    Option("--perform_warm_up -Q 1", ("ib_write_bw", "ib_read_bw", "ib_atomic_bw")),
    Option("--rate_limit=1 --rate_limit_type=SW", ("ib_send_bw",)),
    Option("--rate_limit=1 --rate_limit_type=HW", ("ib_send_bw",)),
    Option("-c DC", SEND, ("",)),
    Option("-c XRC", SEND + WRITE, ("",)),
]


def cell(tool: str, connection: str, exchange: str, option: Option, places: tuple[str, ...], quick: bool) -> Entry:
    """`connection` is empty when the option itself names one."""
    words = [tool, "-F", "-d {device}", "-p {port}", *([f"-c {connection}"] if connection else []), option.text]
    way = option.text or ("over TCP" if exchange == "TCP" else exchange)
    name = f"perftest {way}: {tool} {connection}"
    if option.counted:
        words.append("-n {n}")
    if exchange != "TCP":
        words.append(EXCHANGES[exchange])
    both = "{run} " + " ".join(word for word in words if word)
    size = "" if any(part in option.text.split() for part in ("-a", "-s")) or "atomic" in tool else " -s 1024"
    both += size
    return Entry(
        name.strip(),
        "perftest",
        f"{both} {{address}}",
        both,
        says=() if option.endless else (rf"(?:{ROW}\n(?:[^\d\n].*\n)*){{{option.rows}}}",),
        ready="cm" if exchange != "TCP" or "-R" in option.text else "tcp",
        rounds=(200, 0),
        limit_s=option.limit_s,
        places=places,
        endless_s=option.endless,
        quick=quick,
    )


QUICK = {
    ("ib_send_bw", "UD", "TCP"),
    ("ib_write_lat", "RC", "TCP"),
    ("ib_read_bw", "RC", "-z"),
    ("ib_atomic_bw", "RC", "TCP"),
}
QUICK_OPTIONS = ("-e -X 1", "-b -q 4 -t 16 -Q 1")

ENTRIES = [
    cell(tool, connection, exchange, Option(""), PLACES, (tool, connection, exchange) in QUICK)
    for tool, connections in TOOLS.items()
    for connection in connections
    for exchange in EXCHANGES
] + [
    cell(tool, connection, "TCP", option, (ONE_HOST,), option.text in QUICK_OPTIONS and "send_bw" in tool)
    for option in OPTIONS
    for tool in option.tools
    for connection in option.connections
    if connection in TOOLS[tool] or not connection
]

KNOWN = [
    Known("perftest -R: *_bw UC", "perftest refuses -R with UC", "UC is not supported"),
    Known("perftest -R: *_lat UC", "perftest refuses -R with UC", "UC is not supported"),
    Known(
        "perftest -b -q 4 -t 16: *",
        "perftest counts each completion as -Q requests (here 16), but the last one of a queue pair stands for 8; with"
        " several queue pairs a side can so stop before it has posted all requests, and the other waits for them (the"
        " NIC has completed all that were posted)",
        "did not end within the limit",
        may_run=True,
    ),
    Known(
        "perftest --use_hugepages: *",
        "huge pages must be configured on this machine",
        "Please configure hugepages",
        may_run=True,
    ),
    Known("perftest -g: *", "perftest's multicast group is an IPv6 address, which an IPv4 GID cannot reach"),
    Known(
        "perftest --rate_limit=1 --rate_limit_type=HW: *",
        "the rate is not one that hardware has",
        "rate limit is not supported",
    ),
    Known("perftest -c DC: *", "the NIC has no DC transport, which is of one vendor", "create QP"),
    Known("perftest -c XRC: *", "the NIC has no XRC", "XRC domain"),
]
