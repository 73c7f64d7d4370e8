# SPDX-License-Identifier: Apache-2.0
"""The steps of examples/ci that need no installation, run on the programs of the build."""

import json
import os
import re
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


def cache_key(sources: Path, output: Path) -> str:
    """Run the steps of the action before its cache, and return what they put into the key."""
    entries = steps.loaded("action.yml")["runs"]["steps"]
    cache = next(number for number, entry in enumerate(entries) if "actions/cache" in entry.get("uses", ""))
    (name,) = re.findall(r"\{\{ steps\.(\w+\.outputs\.\w+) \}\}", entries[cache]["with"]["key"])
    (step,) = [entry for entry in entries[:cache] if entry["id"] == name.split(".")[0]]
    output.write_text("")
    subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", step["run"]],
        env=os.environ | {"GITHUB_ACTION_PATH": str(sources / "examples" / "ci"), "GITHUB_OUTPUT": str(output)},
        timeout=LIMIT_S,
        check=True,
    )
    return dict(line.split("=", 1) for line in output.read_text().splitlines())[name.split(".")[-1]]


def test_the_cache_of_the_action_is_renewed_when_the_sources_change(tmp_path: Path) -> None:
    """Its key was the name of a branch, so that a build from then was used for ever."""
    sources, output = tmp_path / "a tree", tmp_path / "output"
    (sources / "examples" / "ci").mkdir(parents=True)
    (sources / "nic").mkdir()
    source = sources / "nic" / "engine.cc"
    source.write_text("int old;\n")
    before = cache_key(sources, output)
    assert re.fullmatch("[0-9a-f]{40}", before)
    os.utime(source, (0, 0))
    for folder in (".git", "build"):
        (sources / folder).mkdir()
        (sources / folder / "made").touch()
    copy = tmp_path / "copy"
    shutil.copytree(sources, copy)
    assert cache_key(sources, output) == cache_key(copy, output) == before
    source.write_text("int new;\n")
    changed = cache_key(sources, output)
    assert changed != before
    source.rename(source.with_name("link.cc"))
    assert cache_key(sources, output) not in {before, changed}


def test_gitlab_runs_commands_of_the_workflow() -> None:
    known = {line.strip() for step in steps.github() for line in step.script.splitlines()}
    for command in steps.loaded("gitlab.yml")["verbs"]["script"]:
        assert command in known, command


def test_the_development_container_is_the_image_of_the_dockerfile() -> None:
    described = json.loads((steps.EXAMPLES / "devcontainer.json").read_text(encoding="utf-8"))
    folder = steps.EXAMPLES
    assert (folder / described["build"]["dockerfile"]).is_file()
    assert (folder / described["build"]["context"]).resolve() == ROOT
