# SPDX-License-Identifier: Apache-2.0
"""A full or failing disk: SETs fail with an error of their own, change nothing, and GETs go on."""

import os
import random
import re
import resource
import shlex
import struct
import subprocess
from pathlib import Path

import pytest
from kv_histories import KV_DISK, build_history, check, histories
from programs import Program, Programs, wait_until
from test_kv import HOST, client, serve

FLIPS = 400 if os.environ.get("VERBENA_HOSTILE") == "long" else 40
REFUSED = "could not write the change to its disk"


@pytest.fixture(scope="module")
def history_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_history(tmp_path_factory)


class SmallDisk:
    """A server whose --data folder lies on a tmpfs of 8 MiB, in a mount namespace of its own."""

    def __init__(self, programs: Programs, *options: object) -> None:
        disk = programs.folder / "disk"
        disk.mkdir()
        unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
        mount = f"mount -t tmpfs -o size=8M tmpfs {shlex.quote(str(disk))}"
        if subprocess.run([*unshare, "sh", "-c", mount], capture_output=True, check=False).returncode:
            pytest.skip("no mount namespaces here: unshare --mount is refused")
        inside = [*unshare, "sh", "-c", f'{mount} && exec "$@"', "sh"]
        self.server = programs.start(
            "kv_server", "--listen", HOST, "--port", 0, "--data", disk / "store", *options,
            within=lambda command: [*inside, *command],
        )  # fmt: skip
        found = wait_until(
            lambda: re.search(r"listening at [\d.]+:(\d+)", self.server.out), "kv_server listens", alive=self.server
        )
        self.where = f"{HOST}:{found[1]}"
        self.folder = Path(f"/proc/{self.server.pid}/root{disk}")

    def fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def make_room(self) -> None:
        (self.folder / "filler").unlink()

    def content(self, to: Path) -> Path:
        """Copy the --data folder out of the namespace; the server must not write meanwhile."""
        to.mkdir()
        (to / "data.mdb").write_bytes((self.folder / "store" / "data.mdb").read_bytes())
        return to


def failed_lines(err: str) -> set[int]:
    return {int(number) for number in re.findall(r"commands\.txt:(\d+): .*" + REFUSED, err)}


def test_a_full_disk_refuses_sets_while_gets_go_on_and_takes_sets_again_when_there_is_room(
    programs: Programs,
) -> None:
    disk = SmallDisk(programs)
    value = "v" * 50_000
    assert client(programs, disk.where, *(f"SET key{i} {i}{value}" for i in range(20))).status == 0
    disk.fill()
    sets = [f"SET key{i} new{value}" for i in range(40)]
    ran = client(programs, disk.where, *sets, *(f"GET key{i}" for i in range(40)), options=("--outstanding", 1))
    assert ran.status == 1, ran
    refused = failed_lines(ran.err)
    assert len(refused) > 30 and max(refused) <= 40, ran.err
    wanted = [f"new{value}" if i + 1 not in refused else f"{i}{value}" if i < 20 else "" for i in range(40)]
    assert ran.out.splitlines() == wanted
    wait_until(lambda: "No space left on device" in disk.server.err, "the server says so", alive=disk.server)

    disk.make_room()
    ran = client(programs, disk.where, "DEL key0", "SET key1 last", *(f"GET key{i}" for i in range(40)))
    assert ran.status == 0, ran
    after = ["", "last", *wanted[2:]]
    assert ran.out.splitlines() == after
    wait_until(lambda: "can be written to the disk again" in disk.server.err, "it says so", alive=disk.server)
    copy = disk.content(programs.folder / "copy")
    told = disk.server.end()
    assert told.status == 0, told
    _, where = serve(programs, "--data", copy)
    again = client(programs, where, *(f"GET key{i}" for i in range(40)))
    assert again.out.splitlines() == after, "the disk has what the clients saw"


# The server ignores SIGXFSZ, so that a limit of the size of files makes writes fail.
LIMITED = ["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"]


def serve_limited(programs: Programs, *options: object) -> tuple[Program, str]:
    server = programs.start(
        "kv_server", "--listen", HOST, "--port", 0, "--data", "store", *options,
        within=lambda command: [*LIMITED, *command],
    )  # fmt: skip
    found = wait_until(lambda: re.search(r"listening at [\d.]+:(\d+)", server.out), "kv_server listens", alive=server)
    return server, f"{HOST}:{found[1]}"


def limit_files(server: Program, size: int) -> None:
    """Let writes behind this offset of a file fail. LMDB's data begin at 8192."""
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize(("protocol", "form"), [("auto", "read"), ("rndv", "write"), ("onesided", "read")])
def test_reads_never_see_what_a_failing_disk_refused(
    programs: Programs, history_program: Path, protocol: str, form: str
) -> None:
    """The disk fails and works in turn: a SET that was refused is in no client's history."""
    server, where = serve_limited(programs, "--one-sided", "16M")
    clients = {i: programs.start(history_program, where, i, 60, 3, protocol, form) for i in range(1, 5)}

    def answers(result: str) -> int:
        return sum(each.out.count(f" {result}\n") for each in clients.values())

    def wait_for_more(result: str) -> None:
        wanted = answers(result) + 60
        wait_until(lambda: answers(result) > wanted, f"SETs end with {result}", alive=server)

    for _ in range(4):
        wait_for_more("0")
        limit_files(server, 8192)
        wait_for_more(KV_DISK)
        limit_files(server, resource.RLIM_INFINITY)
    wait_for_more("0")
    for each in clients.values():
        each.process.terminate()
    for each in clients.values():
        ran = each.finish()
        assert ran.status == 0, ran
    server.kill()
    _, where = serve(programs, "--data", "store")
    last = programs.start(history_program, where, 99, 0.3, 3, "auto", "read", 0)
    assert last.finish().status == 0
    check(histories(clients | {99: last}), keys=3, at_least=400)


def test_a_limit_of_the_files_size_refuses_what_does_not_fit(programs: Programs) -> None:
    server, where = serve_limited(programs)
    limit_files(server, 3_000_000)
    ran = client(programs, where, *(f"SET key{i} {i}{'v' * 50_000}" for i in range(200)))
    assert ran.status == 1, ran
    refused = {number - 1 for number in failed_lines(ran.err)}
    assert 100 < len(refused) < 190, ran.err
    seen = client(programs, where, *(f"GET key{i}" for i in range(200))).out.splitlines()
    assert {i for i, line in enumerate(seen) if not line} == refused
    server.kill()
    _, where = serve(programs, "--data", "store")
    assert client(programs, where, *(f"GET key{i}" for i in range(200))).out.splitlines() == seen


def a_store(programs: Programs) -> tuple[bytes, dict[str, str]]:
    """Return the file of a --data folder, and the keys and values in it."""
    luck = random.Random(1)
    server, where = serve(programs, "--data", "store")
    content = {}
    for _ in range(3):
        for _ in range(60):
            key = f"key{luck.randrange(100)}" + "x" * luck.choice([0, 0, 0, 600])
            content[key] = f"{luck.randrange(10**6)}" * luck.choice([1, 1, 1, 30, 3000])
        assert client(programs, where, *(f"SET {key} {value}" for key, value in content.items())).status == 0
    assert server.end().status == 0
    return (programs.folder / "store" / "data.mdb").read_bytes(), content


def with_flipped_bit(programs: Programs, name: str, data: bytes, bit: int) -> Path:
    folder = programs.folder / name
    folder.mkdir()
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    (folder / "data.mdb").write_bytes(changed)
    return folder


def test_a_store_with_a_flipped_bit_is_refused_or_as_it_was(programs: Programs) -> None:
    """A bit may lie in a free page. No key may be missing or have another value."""
    data, content = a_store(programs)
    luck = random.Random(2)
    refused = 0
    for number in range(FLIPS):
        byte = luck.randrange(len(data))
        if number % 3 == 0:  # LMDB's own headers and offsets
            byte = byte // 4096 * 4096 + luck.randrange(64)
        folder = with_flipped_bit(programs, f"flip{number}", data, 8 * byte + luck.randrange(8))
        server = programs.start("kv_server", "--listen", HOST, "--port", 0, "--data", folder)
        wait_until(lambda server=server: "listening" in server.out or not server.running, "it starts, or refuses")
        if not server.running:
            told = server.finish()
            assert told.status == 1 and str(folder) in told.err, (byte, told)
            refused += 1
            continue
        found = re.search(r"listening at [\d.]+:(\d+)", server.out)
        assert found
        ran = client(programs, f"{HOST}:{found[1]}", *(f"GET {key}" for key in content))
        assert ran.out.splitlines() == list(content.values()), byte
        # LMDB changes pages, and takes free ones: the other keys must stay.
        changed = {key: "after" if i % 5 == 0 else value for i, (key, value) in enumerate(content.items())}
        sets = [f"SET {key} {value}" for key, value in changed.items() if value == "after"]
        assert client(programs, f"{HOST}:{found[1]}", *sets).status == 0, byte
        server.kill()
        server, where = serve(programs, "--data", folder)
        ran = client(programs, where, *(f"GET {key}" for key in changed))
        assert ran.out.splitlines() == list(changed.values()), byte
        server.kill()
    assert refused > FLIPS / 5


def root_page(data: bytes) -> int:
    """Return the number of the page with which the table of a file of LMDB begins."""
    size = resource.getpagesize()
    headers = [(struct.unpack_from("<Q", data, size * page + 144)[0], size * page) for page in (0, 1)]
    return struct.unpack_from("<Q", data, max(headers)[1] + 128)[0]


def test_a_damaged_header_of_a_page_is_refused_and_salvage_reads_everything(programs: Programs) -> None:
    data, content = a_store(programs)
    page = root_page(data)
    folder = with_flipped_bit(programs, "damaged", data, 8 * resource.getpagesize() * page + 1)
    damaged = (folder / "data.mdb").read_bytes()
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--data", folder)
    assert ran.status == 1, ran
    said = f"{folder}/data.mdb is damaged at page {page}: it has the number of page {page ^ 2}; restore the folder"
    assert said in ran.err and "--salvage" in ran.err, ran
    assert (folder / "data.mdb").read_bytes() == damaged

    server, where = serve(programs, "--data", folder, "--salvage")
    kept = folder / "data.mdb.damaged-1"
    wait_until(lambda: f"the damaged file is kept as {kept}" in server.err, "it says where", alive=server)
    assert "all records were read" in server.err, server.err
    assert kept.read_bytes() == damaged
    got = client(programs, where, *(f"GET {key}" for key in content))
    assert got.out.splitlines() == list(content.values())
    assert client(programs, where, *(f"SET {key} after" for key in list(content)[::3])).status == 0
    server.kill()
    _, where = serve(programs, "--data", folder)
    got = client(programs, where, *(f"GET {key}" for key in content))
    assert got.out.splitlines() == ["after" if i % 3 == 0 else value for i, value in enumerate(content.values())]


def test_a_damaged_key_is_named_and_salvage_starts_without_it(programs: Programs) -> None:
    data, content = a_store(programs)
    value = content["key7"].encode()
    folder = programs.folder / "damaged"
    folder.mkdir()
    (folder / "data.mdb").write_bytes(data.replace(value, value[:-1] + b"!"))
    ran = programs.run("kv_server", "--listen", HOST, "--port", 0, "--data", folder)
    assert ran.status == 1 and "the key key7" in ran.err and "--salvage" in ran.err, ran
    server, where = serve(programs, "--data", folder, "--salvage")
    wait_until(lambda: "the key key7 is damaged" in server.err, "the server names it", alive=server)
    got = client(programs, where, *(f"GET {key}" for key in content))
    assert got.out.splitlines() == ["" if key == "key7" else value for key, value in content.items()]
    server.kill()
    _, where = serve(programs, "--data", folder)
    assert client(programs, where, "GET key7", "SET key7 new", "GET key7").out.splitlines() == ["", "new"]
