# SPDX-License-Identifier: Apache-2.0
"""The table: programs of other people, what they must do on the NIC, and what is known to fail.

entry.py describes the fields. The name of an entry is `group: case`; the page joins the cases of a
group that have the same result.
"""

import signal
from dataclasses import replace

import mpi
import perftest_matrix
import services
from entry import CLIENT_KILLED, ONE_HOST, SERVER_KILLED, TWO_HOSTS, Entry, Kill, Known, Program

PROGRAMS = {
    "perftest": perftest_matrix.PROGRAM,
    "ucx": Program("UCX", "Debian `ucx-utils`", "ucx_info -v", r"[Vv]ersion:? (\S+)"),
    "ucx-new": Program(
        "UCX",
        "PyPI: library of `nixl-cu12`, programs of `libucx-cu12`",
        "LD_LIBRARY_PATH={ucx} {wheels}/libucx/bin/ucx_info -v",
        r"version: (\S+)",
    ),
    **mpi.PROGRAMS,
    "ofi": Program("libfabric", "Debian `libfabric-bin`", "fi_info --version", r"libfabric: (\S+)"),
    "fio": Program("fio", "Debian `fio`", "fio --version"),
    "qperf": Program("qperf", "Debian `qperf`", "qperf --version"),
    "mooncake": Program(
        "Mooncake",
        "PyPI `mooncake-transfer-engine-non-cuda`",
        "{python} -m pip show mooncake-transfer-engine-non-cuda",
        r"Version: (\S+)",
    ),
    "nixl": Program("NIXL", "PyPI `nixl-cu12`", "{python} -m pip show nixl-cu12", r"Version: (\S+)"),
    "rsockets": Program(
        "rsockets (librspreload)", "Debian `librdmacm1`", "dpkg-query --show librdmacm1", r"\s(\d[\w.+-]*)"
    ),
    **services.PROGRAMS,
}

BOTH_KILLED = ((CLIENT_KILLED, Kill()), (SERVER_KILLED, Kill()))
EITHER = Kill(survivor="either", within_s=3)
STAYS = Kill(survivor="goes on", within_s=3)
# A client whose message was acknowledged waits for the answer, and gets no notice.
SERVER_STAYS = ((CLIENT_KILLED, STAYS), (SERVER_KILLED, EITHER))

# ---- UCX

# Transports as UCX names them: rc_v is rc_verbs with ud_verbs for its handshake.
UCX_TRANSPORTS = {"rc_verbs": "rc_v,self", "ud_verbs": "ud_v,self"}
UCX_RESULT = r"^Final:(\s+\d[\d.]*){4,}"
UCX_TESTS = {
    "tag_lat": "-t tag_lat",
    "tag_bw, 1 MiB": "-t tag_bw -s 1048576 -w 10",
    "am_lat": "-t ucp_am_lat -s 1024",
    "am_bw": "-t ucp_am_bw -s 65536",
    "put_lat": "-t ucp_put_lat",
    "put_bw": "-t ucp_put_bw -s 65536",
    "get": "-t ucp_get -s 65536",
    "stream_lat": "-t stream_lat -s 100",
    "stream_bw": "-t stream_bw -s 65536",
    "add": "-t ucp_add",
    "fadd": "-t ucp_fadd",
    "swap": "-t ucp_swap",
    "cswap": "-t ucp_cswap",
    "tag_lat, sleeping": "-t tag_lat -E sleep",
    "tag_bw, two threads": "-t tag_bw -s 4096 -T 2 -M multi",
}


def ucx_kill(program: str, transport: str, case: str) -> tuple[tuple[str, Kill], ...]:
    """The kill checks of a case.

    A side that waits for a message has nothing outstanding, so no NIC notifies it of its peer's
    death. A side that writes gets errors over RC; over UD, UCX gives up by itself after minutes.
    """
    if case == "tag_lat":
        return ((CLIENT_KILLED, EITHER), (SERVER_KILLED, EITHER))
    if (program, transport, case) == ("ucx", "rc_verbs", "put_bw"):
        return ((SERVER_KILLED, Kill()),)
    return ()


def ucx_entries() -> list[Entry]:
    made = []
    for program, perftest in (
        ("ucx", "{run} ucx_perftest"),
        ("ucx-new", "LD_LIBRARY_PATH={ucx} {run} {wheels}/libucx/bin/ucx_perftest"),
    ):
        info = perftest.replace("ucx_perftest", "ucx_info")
        version = "UCX 1.13" if program == "ucx" else "newest UCX"
        made.append(
            Entry(
                f"{version}, ucx_info -d: lists the device",
                program,
                f"{info} -d",
                says=(r"Transport: rc_verbs\n#\s+Device: {device}:1", r"Transport: ud_verbs\n#\s+Device: {device}:1"),
                may_say=r"error handling:[^\n]*",
                places=(ONE_HOST,),
                quick=program == "ucx",
            )
        )
        for transport, names in UCX_TRANSPORTS.items():
            for case, options in UCX_TESTS.items():
                name, value = "UCX_TLS", names
                words = perftest.split(" ")
                words.insert(words.index("{run}"), f"{name}={value}")
                both = f"{' '.join(words)} -p {{port}} {options} -n {{n}}"
                made.append(
                    Entry(
                        f"{version}, ucx_perftest over {transport}: {case}",
                        program,
                        f"{both} {{address}}",
                        both,
                        says=(UCX_RESULT,),
                        limit_s=25,
                        kill=ucx_kill(program, transport, case),
                        quick=program == "ucx" and case == "tag_lat",
                    )
                )
    return made


# ---- libfabric

OFI_ENDPOINTS = {
    "msg": "-p verbs -e msg",
    "rxm": "-p 'verbs;ofi_rxm' -e rdm",
    "dgram": "-p verbs -e dgram",
    "rxd": "-p 'verbs;ofi_rxd' -e rdm",
}


def ofi_entries() -> list[Entry]:
    return [
        Entry(
            f"libfabric, fi_pingpong with compared data: {case}",
            "ofi",
            f"{{run}} fi_pingpong {options} -c -I {{n}} -P {{port}} {{address}}",
            f"{{run}} fi_pingpong {options} -c -I {{n}} -B {{port}}",
            says=(r"^bytes +#sent +#ack", r"^1k +\S+ +=\S+"),
            rounds=(20, 100_000_000),
            # A side that waits for a datagram gets no notice.
            kill={"msg": BOTH_KILLED, "dgram": ((CLIENT_KILLED, EITHER), (SERVER_KILLED, EITHER))}.get(case, ()),
            quick=case == "msg",
        )
        for case, options in OFI_ENDPOINTS.items()
    ]


# ---- fio

# The side with --rw=read waits for the other. It posts all its receives before the first message
# comes, because fio asks for no RNR retries.
FIO = "{run} fio --thread --name=job --ioengine=rdma --port={port} --bs=64k --size={n}k"
FIO_STAYS = replace(STAYS, last_signal=signal.SIGKILL)
FIO_VERBS = {
    "write": ("", ""),
    "read": ("", ""),
    "send, with verified blocks": ("--iodepth=400 --verify=crc32c", "--verify=crc32c --do_verify=0"),
}


def fio_entries() -> list[Entry]:
    return [
        Entry(
            f"fio --ioengine=rdma: {verb}",
            "fio",
            f"{FIO} --hostname={{address}} --verb={verb.split(',')[0]} --rw=write --iodepth=8"
            f" --iodepth_batch_complete=1 {client}",
            f"{FIO} --rw=read --iodepth=16 {server}",
            says=(r"err= 0", r"WRITE: bw="),
            server_says=(r"err= 0",),
            may_say=r"err= 0|errors?\s*: *total=0[^\n]*",
            ready="cm",
            rounds=(20_000, 1_000_000_000),
            # fio prints the status of the failed completion and waits for the next one for ever;
            # SIGTERM does not end that.
            kill=((CLIENT_KILLED, FIO_STAYS), (SERVER_KILLED, FIO_STAYS)) if verb == "write" else (),
            quick=verb == "write",
        )
        for verb, (server, client) in FIO_VERBS.items()
    ]


# ---- qperf

QPERF_RC = (
    "rc_lat rc_bw rc_bi_bw rc_rdma_read_lat rc_rdma_read_bw rc_rdma_write_lat rc_rdma_write_bw"
    " rc_rdma_write_poll_lat rc_fetch_add_mr rc_compare_swap_mr ver_rc_fetch_add ver_rc_compare_swap"
)
QPERF_OTHER = "uc_lat uc_bw uc_rdma_write_lat ud_lat ud_bw"


def qperf_entries() -> list[Entry]:
    def entry(name: str, options: str, tests: str, quick: bool, kill: tuple[tuple[str, Kill], ...] = ()) -> Entry:
        return Entry(
            name,
            "qperf",
            f"{{run}} qperf {{address}} -lp {{port}} -t {{n}} {options} {tests}",
            "{run} qperf -lp {port}",
            says=tuple(rf"^{test}:\n +\w+ +=" for test in tests.split()),
            server_ends=False,
            rounds=(1, 1000),
            kill=kill,
            quick=quick,
        )

    return [
        entry("qperf -cm 1, RC: all tests", "-cm 1", QPERF_RC, False),
        entry("qperf -cm 1, RC: latency and compared atomics", "-cm 1", "rc_lat ver_rc_fetch_add", True, SERVER_STAYS),
        *(entry(f"qperf -cm 1, UD: {test}", "-cm 1", test, False) for test in ("ud_lat", "ud_bw")),
        *(entry(f"qperf without -cm: {test}", "", test, False) for test in ["rc_lat", *QPERF_OTHER.split()]),
    ]


# ---- Mooncake and NIXL

# Mooncake falls back to TCP when it finds no RDMA device.
NOT_TCP = r"\A(?![\s\S]*TcpTransport)"
BENCH = (
    "{run} {wheels}/mooncake/transfer_engine_bench --metadata_server=P2PHANDSHAKE --protocol=rdma"
    " --device_name={device} --buffer_size=134217728 --local_server_name={own}"
)


def wheel_entries() -> list[Entry]:
    return [
        Entry(
            "Mooncake TransferEngine in Python: written and read data compared",
            "mooncake",
            "{run} {python} {helpers}/mooncake_pair.py initiator {device} {own} {address} {port} {n}",
            "{run} {python} {helpers}/mooncake_pair.py target {device} {own} {port}",
            says=(r"^initiator: \d+ rounds, every byte right", NOT_TCP),
            server_says=(r"^target: \d+ rounds, every byte right", NOT_TCP),
            rounds=(40, 1_000_000),
            kill=((CLIENT_KILLED, Kill(cpu_s=4)), (SERVER_KILLED, Kill(cpu_s=4, within_s=60))),
            limit_s=120,
        ),
        *(
            Entry(
                f"Mooncake transfer_engine_bench: {operation}",
                "mooncake",
                f"{BENCH} --mode=initiator --segment_id={{address}}:{{port}} --operation={operation}"
                " --duration={n} --threads=2 --batch_size=16",
                f"{BENCH} --mode=target",
                says=(r"Test completed: duration \d\S*, batch count [1-9]\d\d",),
                ready=r"listening on [\d.]+:(\d+)\n[\s\S]*numa node num",
                server_ends=False,
                rounds=(5, 1000),
                limit_s=120,
            )
            for operation in ("read", "write")
        ),
        *(
            Entry(
                f"NIXL in Python over UCX's {transport}: written and read data compared",
                "nixl",
                f"UCX_TLS={names} {{run}} {{python}} {{helpers}}/nixl_pair.py initiator {{address}} {{port}} {{n}}",
                f"UCX_TLS={names} {{run}} {{python}} {{helpers}}/nixl_pair.py target {{port}}",
                says=(r"^initiator: \d+ rounds, every byte right",),
                server_says=(r"^target: \d+ rounds, every byte right",),
                rounds=(8, 1_000_000),
                limit_s=120,
                kill=((CLIENT_KILLED, Kill(cpu_s=4)), (SERVER_KILLED, Kill(cpu_s=4, within_s=60)))
                if transport == "rc_verbs"
                else (),
            )
            for transport, names in UCX_TRANSPORTS.items()
        ),
    ]


# ---- rsockets under ordinary TCP programs

# Debian puts librspreload beside librdmacm.
RSOCKETS = "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so {run}"

STREAM_WAITS = replace(EITHER, last_signal=signal.SIGKILL)


def rsocket_entries() -> list[Entry]:
    return [
        Entry(
            "rsockets, librspreload under a TCP program: echoed data compared",
            "rsockets",
            f"{RSOCKETS} {{built}}/tcp_check {{address}} {{port}} {{n}}",
            f"{RSOCKETS} {{built}}/tcp_check {{port}}",
            says=(r"^client: \d+ rounds, every byte right",),
            server_says=(r"^server: \d+ rounds",),
            ready="cm",
            rounds=(200, 100_000_000),
            # Blocking calls of rsockets do not look at rdma_cm's events: a side that has nothing
            # outstanding waits for ever.
            kill=((CLIENT_KILLED, EITHER), (SERVER_KILLED, EITHER)),
            quick=True,
        ),
        Entry(
            "rsockets, librspreload under iperf: a stream",
            "rsockets",
            f"{RSOCKETS} iperf -c {{address}} -p {{port}} -t {{n}}",
            # iperf 2.1.8 compares a connection's descriptor with SO_RCVTIMEO, that is 20, and says
            # "socket failed" if they are equal. The open descriptor 3 gives it another one.
            f"{RSOCKETS} sh -c 'exec iperf -s -P 1 -p {{port}} 3</dev/null'",
            says=(r"Bytes .*bits/sec$",),
            server_says=(r"Bytes .*bits/sec$",),
            ready="cm",
            rounds=(1, 1000),
            # After SIGTERM iperf waits for its thread, which may wait for ever, as above.
            kill=((CLIENT_KILLED, STREAM_WAITS), (SERVER_KILLED, STREAM_WAITS)),
        ),
        Entry(
            "rsockets, librspreload under iperf3: a stream",
            "rsockets",
            f"{RSOCKETS} iperf3 -c {{address}} -p {{port}} -t {{n}}",
            f"{RSOCKETS} iperf3 -s -1 -p {{port}}",
            says=(r"receiver$",),
            ready="cm",
            rounds=(1, 1000),
            limit_s=15,
        ),
        Entry(
            "rsockets, librspreload under nc: a file",
            "rsockets",
            f"{RSOCKETS} nc.openbsd -N {{address}} {{port}}",
            f"{RSOCKETS} nc.openbsd -l {{address}} {{port}}",
            ready="cm",
            limit_s=15,
        ),
    ]


ENTRIES = [
    *ucx_entries(),
    *mpi.ENTRIES,
    *ofi_entries(),
    *fio_entries(),
    *qperf_entries(),
    *wheel_entries(),
    *rsocket_entries(),
    *services.ENTRIES,
    *perftest_matrix.ENTRIES,
]

KNOWN = [
    *perftest_matrix.KNOWN,
    Known(
        "rsockets*under nc: *",
        "librspreload has neither accept4() nor SO_REUSEPORT, which nc needs",
        "accept: Socket op",
    ),
    Known(
        "rsockets*under iperf3: *",
        "librspreload's select() reports an accepted socket under rsocket's number for it instead of the program's, so"
        " iperf3's server does not see that data has come; on the kernel's Soft-RoCE it stops at the same point",
        "the client did not end within the limit",
    ),
    Known(
        "qperf -cm 1, UD: *",
        "qperf uses -cm for RC only; for UD it addresses by LID and sets no GRH, so no RoCE device can make the address"
        " handle; the kernel's Soft-RoCE refuses it too",
        "failed to create address handle: Invalid argument",
    ),
    Known(
        "qperf without -cm: *",
        "without -cm, qperf addresses by LID only and sets no GRH, which RoCE requires (as on RoCE hardware)",
        "Invalid argument",
    ),
    Known(
        "libfabric, fi_pingpong with compared data: rxm",
        "on a busy machine sometimes: rxm looks for its peer's disconnection after it looked for completions, and"
        " reports a message as flushed whose completion came in between",
        "Work Request Flushed Error",
        ONE_HOST,
        may_run=True,
    ),
    # On one host the READs of `get` are complete when they are posted, so nothing is left to flush.
    *(
        Known(
            f"newest UCX, ucx_perftest over rc_verbs: {case}",
            "over rc_verbs, UCX 1.23 flushes these by an RDMA READ of address 0 with key 0xff, which every NIC refuses",
            "did not end within the limit",
            place,
        )
        for case, place in (("put_bw", "*"), ("get", TWO_HOSTS))
    ),
]
