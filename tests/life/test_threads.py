# SPDX-License-Identifier: Apache-2.0
"""Threads may share every object of a NIC (threads.cc).

If the NIC was built with the thread sanitizer, so is the program. Then it is linked to the NIC's
archives and preloads nothing: the sanitizer and our library both define the signal functions, and
from an archive the linker takes only the symbols that are still undefined.
"""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from conftest import BUILD, DEVICE, NIC, build

LIMIT_S = 60


@pytest.fixture(scope="module")
def sanitized() -> bool:
    symbols = subprocess.run(["nm", "-D", "--undefined-only", NIC], capture_output=True, text=True, check=True)
    return "__tsan_func_entry" in symbols.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, sanitized: bool) -> Path:
    archives = [
        "-fsanitize=thread",
        "-Wl,--start-group",
        *map(str, BUILD.glob("libverbena_*.a")),
        "-Wl,--end-group",
        "-ldl",
    ]
    source = Path(__file__).with_name("threads.cc")
    target = tmp_path_factory.mktemp("threads") / "threads"
    return build(source, target, "-Wno-missing-field-initializers", "-pthread", *(archives if sanitized else []))


@pytest.mark.parametrize("work", ["own", "shared", "events", "churn", "hasty", "fork"])
def test_all_messages_of_many_threads_complete(program: Path, sanitized: bool, work: str, tmp_path: Path) -> None:
    environment = (
        os.environ
        | {"VERBENA_DEVICES": DEVICE}
        | ({"TSAN_OPTIONS": "halt_on_error=1 exitcode=66"} if sanitized else {"LD_PRELOAD": str(NIC)})
    )
    # Threads that call control verbs all the time hold the engine's lock most of the time.
    command = [program, work, "4", "4000" if sanitized or work in ("churn", "hasty") else "40000"]
    logs = [tmp_path / "a.log", tmp_path / "b.log"]
    both = []
    limit = threading.Timer(LIMIT_S, lambda: [p.kill() for p in both])
    limit.start()
    try:
        for log in logs:
            with log.open("wb") as errors:
                both.append(
                    subprocess.Popen(
                        command,
                        env=environment,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        text=True,
                    )
                )
        a, b = both
        numbers = [p.stdout.readline() for p in both]
        a.stdin.write(numbers[1])
        b.stdin.write(numbers[0])
        for p in both:
            p.stdin.flush()
        assert [p.stdout.readline() for p in both] == ["ok\n", "ok\n"], "\n".join(log.read_text() for log in logs)
        for p in both:
            p.stdin.close()
        assert [p.wait() for p in both] == [0, 0], "\n".join(log.read_text() for log in logs)
    finally:
        limit.cancel()
        for p in both:
            p.kill()
            p.wait()
            p.stdout.close()
