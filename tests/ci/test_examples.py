# SPDX-License-Identifier: Apache-2.0
"""The steps of examples/ci that need no installation, run on the programs of the build."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import steps

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")).resolve()
LIMIT_S = 120
USES = [step for step in steps.github() if "verbena run" in step.script]


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    shutil.copy(steps.EXAMPLES / "verbs_test.c", folder)
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": f"{BUILD}:{os.environ['PATH']}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize("step", USES, ids=lambda step: step.name)
def test_a_step_of_the_workflow_passes(tmp_path: Path, step: steps.Step) -> None:
    # Later steps use the program that an earlier one has built.
    before = next(each.script for each in USES if each.name == "Run the test").splitlines()[0]
    done = run(f"{before}\n{step.script}", tmp_path)
    assert done.returncode == 0, done.stdout
    if "verbs_test" in step.script:
        assert "ok a WRITE with a wrong key is refused" in done.stdout, done.stdout
    assert "WARNING: ThreadSanitizer" not in done.stdout, done.stdout


FAULTS = {
    "address": "char *c = malloc(1); volatile char d = c[1]; (void)d;",
    "thread": "pthread_t t; pthread_create(&t, NULL, race, NULL); raced++; pthread_join(t, NULL);",
    "valgrind": 'volatile int *i = malloc(4); if (*i) puts("");',
    "gdb": "abort();",
}
RACE = "static int raced;\nstatic void *race(void *n) { raced++; return n; }\n"


@pytest.mark.parametrize("tool", FAULTS)
def test_a_step_fails_if_the_program_has_a_fault(tmp_path: Path, tool: str) -> None:
    source = (steps.EXAMPLES / "verbs_test.c").read_text(encoding="utf-8")
    begin = "int main(void) {\n"
    assert source.count(begin) == 1
    (tmp_path / "faulty.c").write_text(source.replace(begin, f"{RACE}{begin}\t{FAULTS[tool]}\n"))
    step = next(each for each in USES if tool in each.name)
    script = step.script.replace("verbs_test.c", "faulty.c").replace("-O1", "-O0")
    done = run(f"cc -g -O0 faulty.c -o verbs_test -lrdmacm -libverbs\n{script}", tmp_path)
    assert done.returncode != 0, done.stdout


def test_gitlab_runs_commands_of_the_workflow() -> None:
    known = {line.strip() for step in steps.github() for line in step.script.splitlines()}
    for command in steps.loaded("gitlab.yml")["verbs"]["script"]:
        assert command in known, command


def test_the_development_container_is_the_image_of_the_dockerfile() -> None:
    described = json.loads((steps.EXAMPLES / "devcontainer.json").read_text(encoding="utf-8"))
    folder = steps.EXAMPLES
    assert (folder / described["build"]["dockerfile"]).is_file()
    assert (folder / described["build"]["context"]).resolve() == ROOT
