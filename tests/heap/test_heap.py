# SPDX-License-Identifier: Apache-2.0
"""Programs that do not know the NIC's heap, and run as without it (docs/decisions/0035).

Each test starts real processes, with a time limit, and the NIC preloaded or found as
libibverbs.so.1.
"""

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("VERBENA_BUILD", HERE.parents[1] / "build"))
NIC = BUILD / "libverbena-nic.so"
LIMIT_S = 60
JEMALLOC = "libjemalloc.so.2"

PRELOADED = {"LD_PRELOAD": str(NIC)}
IN_FOLDER = {"LD_LIBRARY_PATH": str(BUILD / "libibverbs")}


def run(*command: object, limits: Callable[[], None] | None = None, **variables: str) -> str:
    """Run a program to its end, which must be a silent success, and return its output."""
    environment = os.environ | {"VERBENA_HEAP": "1", "VERBENA_DEVICES": "vb_lo"} | variables
    done = subprocess.run(
        list(map(str, command)),
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        preexec_fn=limits,
    )
    assert (done.returncode, done.stderr) == (0, ""), f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def build(name: str, folder: Path, *flags: str) -> Path:
    program = folder / name
    warnings = ["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-Wno-use-after-free"]
    # --no-as-needed: a program that calls no verb still loads libibverbs.so.1.
    libraries = ["-Wl,--no-as-needed", "-libverbs"]
    subprocess.run(["cc", *warnings, "-O1", "-g", *flags, HERE / f"{name}.c", "-o", program, *libraries], check=True)
    return program


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("heap")


@pytest.fixture(scope="module")
def allocate(folder: Path) -> Path:
    return build("allocate", folder)


@pytest.fixture(scope="module")
def fork(folder: Path) -> Path:
    return build("fork", folder)


@pytest.mark.parametrize("way", [PRELOADED, IN_FOLDER], ids=["preloaded", "libibverbs.so.1"])
def test_each_function_behaves_as_the_manual_says(allocate: Path, way: dict[str, str]) -> None:
    assert run(allocate, **way) == "heap\n"


@pytest.mark.parametrize(("value", "place"), [("", "heap"), ("0", "none")])
def test_the_heap_is_on_unless_switched_off(allocate: Path, value: str, place: str) -> None:
    assert run(allocate, **PRELOADED | {"VERBENA_HEAP": value}) == f"{place}\n"


def test_another_value_is_reported_and_means_off(allocate: Path) -> None:
    environment = os.environ | PRELOADED | {"VERBENA_HEAP": "yes"}
    done = subprocess.run([allocate], env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    assert done.stdout == "none\n"
    assert done.stderr == "verbena: error: VERBENA_HEAP=yes is neither 0 nor 1; the heap stays off\n"


@pytest.mark.parametrize("way", [PRELOADED, IN_FOLDER], ids=["preloaded", "libibverbs.so.1"])
def test_a_parent_and_its_child_have_memory_of_their_own(fork: Path, way: dict[str, str]) -> None:
    assert run(fork, **way) == "heap\n"


@pytest.mark.parametrize(
    ("first", "second", "place"), [(str(NIC), JEMALLOC, "heap"), (JEMALLOC, str(NIC), "none")], ids=["behind", "before"]
)
def test_jemalloc_may_come_before_or_behind_the_nic(
    allocate: Path, fork: Path, first: str, second: str, place: str
) -> None:
    assert run(allocate, LD_PRELOAD=f"{first} {second}") == f"{place}\n"
    assert run(fork, LD_PRELOAD=f"{first} {second}") == f"{place}\n"


def sanitizer_runtime(name: str) -> str:
    asked = subprocess.run(["cc", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
@pytest.mark.parametrize("runtime_first", [True, False])
def test_a_sanitizer_sees_each_allocation_unless_the_user_asks_for_the_heap(
    tmp_path: Path, sanitizer: str, runtime_first: bool
) -> None:
    program = build("allocate", tmp_path, f"-fsanitize={sanitizer}")
    runtimes = {"address": "libasan.so", "thread": "libtsan.so"}
    preload = [sanitizer_runtime(runtimes[sanitizer]), str(NIC)] if runtime_first else [str(NIC)]
    options = f"detect_leaks=0:allocator_may_return_null=1:verify_asan_link_order=0:log_path={tmp_path}/log"
    variables = {"LD_PRELOAD": " ".join(preload), "ASAN_OPTIONS": options, "TSAN_OPTIONS": options}
    assert run(program, VERBENA_HEAP="", **variables) == "none\n"


def test_valgrind_sees_each_allocation(allocate: Path) -> None:
    assert run("valgrind", "-q", "--error-exitcode=1", allocate, VERBENA_HEAP="", **PRELOADED) == "none\n"


@pytest.mark.parametrize("runtime_first", [True, False])
def test_a_program_under_the_address_sanitizer(tmp_path: Path, runtime_first: bool) -> None:
    program = build("allocate", tmp_path, "-fsanitize=address")
    # Its warning about a size that it refuses goes to a file.
    options = f"detect_leaks=0:allocator_may_return_null=1:log_path={tmp_path}/log"
    if runtime_first:
        assert run(program, LD_PRELOAD=f"{sanitizer_runtime('libasan.so')} {NIC}", ASAN_OPTIONS=options) == "none\n"
    else:
        options += ":verify_asan_link_order=0"
        assert run(program, LD_PRELOAD=str(NIC), ASAN_OPTIONS=options) == "heap\n"


def test_python_allocates_forks_and_starts_programs() -> None:
    script = """
import ctypes, multiprocessing, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
address = libc.aligned_alloc(4096, 1 << 20)
buffer = (ctypes.c_char * (1 << 20)).from_address(address)
buffer.value = b"parent"
def work(queue):
    before = buffer.value
    buffer.value = b"child"
    queue.put((before, buffer.value))
queue = multiprocessing.get_context("fork").Queue()
child = multiprocessing.get_context("fork").Process(target=work, args=(queue,))
child.start()
assert queue.get() == (b"parent", b"child")
child.join()
assert child.exitcode == 0 and buffer.value == b"parent"
subprocess.run([sys.executable, "-c", "pass"], check=True)
libc.free.argtypes = [ctypes.c_void_p]
libc.free(address)
print("done")
"""
    assert run("/usr/bin/python3", "-c", script, **PRELOADED) == "done\n"


def limit(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, value))


@pytest.mark.parametrize(
    ("limits", "place"),
    [
        (limit(resource.RLIMIT_FSIZE, 1 << 20), "none"),
        (limit(resource.RLIMIT_FSIZE, 1 << 30), "heap"),
        (limit(resource.RLIMIT_AS, 2 << 30), "heap"),
        (limit(resource.RLIMIT_AS, 500 << 20), "none"),
    ],
    ids=["files of 1 MiB", "files of 1 GiB", "2 GiB of addresses", "500 MiB of addresses"],
)
def test_limits_of_the_process_make_the_heap_smaller_or_turn_it_off(
    allocate: Path, limits: Callable[[], None], place: str
) -> None:
    # Each further arena of malloc() takes 64 MiB of addresses, and leaves none to threads.
    assert run(allocate, limits=limits, MALLOC_ARENA_MAX="1", **PRELOADED) == f"{place}\n"


# The system calls of the heap, each with an error that an environment gives it. The loader, which
# comes first, needs some of its calls of fstat and pread.
FAILURES = {
    "memfd_create": "EMFILE",
    "ftruncate": "EINTR",
    "fcntl": "EINVAL",
    "newfstatat": "ENOMEM:when=60+",
    "fallocate": "ENOSPC",
    "lseek": "ESPIPE",
    "pread64": "EIO:when=20+",
    "mremap": "ENOMEM",
    "process_vm_readv": "EPERM",
    "madvise": "ENOMEM",
}


@pytest.mark.parametrize("call", FAILURES)
def test_a_system_call_that_always_fails_harms_no_program(
    allocate: Path, fork: Path, tmp_path: Path, call: str
) -> None:
    tracer = ["strace", "-qq", "-f", "--seccomp-bpf", "-o", tmp_path / "trace"]
    injection = ["-e", f"trace={call}", "-e", f"inject={call}:error={FAILURES[call]}"]
    for program in ([allocate], [fork, "without a device"]):
        run(*tracer, *injection, "env", f"LD_PRELOAD={NIC}", *program)


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for a condition that no process announces; return False if it stays false."""
    deadline = time.monotonic() + LIMIT_S / 2
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def listens(port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines() + Path("/proc/net/tcp6").read_text().splitlines()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines[1:])


def heap_files(pid: int) -> set[str]:
    """The inodes of the files of heaps that a process has mapped: its own, and those of peers."""
    lines = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if "memfd:verbena-heap" in line}


def test_a_peer_maps_the_memory_that_it_reads() -> None:
    """perftest knows nothing of it: its buffers are memalign's."""
    port = 18600 + os.getpid() % 300
    command = ["ib_read_bw", "-d", "vb_lo", "-F", "-s", "65536", "-D", "20", "-p", str(port)]
    environment = os.environ | PRELOADED | {"VERBENA_HEAP": "1", "VERBENA_DEVICES": "vb_lo"}
    with contextlib.ExitStack() as processes:

        def start(*more: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([*command, *more], env=environment, stdout=subprocess.DEVNULL)
            processes.callback(process.wait)
            processes.callback(process.kill)
            return process

        start()
        assert eventually(lambda: listens(port))
        reader = start("127.0.0.1")
        assert eventually(lambda: len(heap_files(reader.pid)) == 2 or reader.poll() is not None)
        assert reader.poll() is None
