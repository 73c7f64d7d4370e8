# SPDX-License-Identifier: Apache-2.0
"""The inputs that fuzzing has kept: their text form, and the programs that repeat them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
CORPUS = ROOT / "fuzz" / "corpus"
FUZZERS = sorted(path.stem for path in (ROOT / "fuzz").glob("*.cc") if "LLVMFuzzerTestOneInput" in path.read_text())

sys.path.insert(0, str(ROOT / "fuzz"))
import corpus  # noqa: E402


def replay(name: str, file: Path) -> subprocess.CompletedProcess[str]:
    program = BUILD / "fuzz" / f"replay_{name}"
    return subprocess.run([program, file], capture_output=True, text=True, timeout=60, check=False)


def test_every_fuzzer_has_a_corpus():
    assert sorted(path.stem for path in CORPUS.glob("*.txt")) == [name for name in FUZZERS if name != "replay"]


def test_packing_and_unpacking_keep_every_input(tmp_path: Path):
    text = (CORPUS / "packet.txt").read_text()
    inputs = corpus.unpack(text)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    assert len(inputs) > 20 and corpus.pack([*inputs, inputs[0]], comments) == text


def test_an_empty_corpus_is_no_success(tmp_path: Path):
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n")
    assert replay("packet", empty).returncode == 1
    assert replay("packet", tmp_path / "absent.txt").returncode == 2
