#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of the files in examples/ci, as those systems run them: `steps.py FILE` prints a
shell script. A clone or a checkout is left out, because the caller has the files already.
"""

import shlex
import sys
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "ci"
ACTION = "OWNER/verbena/examples/ci@"


class Step(NamedTuple):
    name: str
    script: str


def loaded(name: str) -> dict[str, Any]:
    return yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))


def steps_of(entries: list[dict[str, Any]]) -> list[Step]:
    """The steps of a workflow or of a composite action; those of our own action in their place."""
    found = []
    for entry in entries:
        if entry.get("uses", "").startswith(ACTION):
            found += steps_of(loaded("action.yml")["runs"]["steps"])
        elif "run" in entry:
            found.append(Step(entry["name"], entry["run"]))
    return found


def github() -> list[Step]:
    return steps_of(loaded("github.yml")["jobs"]["verbs"]["steps"])


def gitlab() -> list[Step]:
    """One step for each command."""
    job = loaded("gitlab.yml")["verbs"]
    commands = [*job["before_script"], *job["script"]]
    return [Step(command, command) for command in commands if not command.startswith("git clone")]


def script(steps: list[Step]) -> str:
    """Each step in a shell of its own, which ends at the first failure, as on a runner."""
    lines = ["set -eu", "export GITHUB_PATH=/tmp/github-path GITHUB_OUTPUT=/tmp/github-output", ": >$GITHUB_PATH"]
    for step in steps:
        lines += [
            f"echo {shlex.quote('step: ' + step.name)}",
            f"bash -e -o pipefail -c {shlex.quote(step.script)}",
            'while read -r folder; do PATH="$folder:$PATH"; done <$GITHUB_PATH',
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(script({"github.yml": github, "gitlab.yml": gitlab}[sys.argv[1]]()), end="")
