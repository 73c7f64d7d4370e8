# SPDX-License-Identifier: Apache-2.0
"""The runner of mutants: which changes it makes, which it counts, and how it judges a run."""

import os
import shutil
from pathlib import Path

import pytest
import run
from run import Mutant

LINE = '	if (count == 0) return fail("no messages");  // a sentence'


def test_a_change_of_a_text_or_a_comment_is_no_mutant() -> None:
    assert run.is_seen(LINE, LINE.replace("==", "!="))
    assert not run.is_seen(LINE, LINE.replace("no messages", "none"))
    assert not run.is_seen(LINE, LINE.replace("a sentence", "(0==1)"))
    assert not run.is_seen("// count == 0", "// count != 0")
    assert not run.is_seen("}", "")
    assert not run.is_seen("add(a, 1, 1);", "add(a , 1, 1);"), "the same arguments in another order"


def mutants(number: int) -> list[Mutant]:
    return [Mutant("bench/judge/judge.cc", each, f"a = {each};", f"a = {each + 1};") for each in range(number)]


def test_mutants_of_a_file_are_made_once_for_each_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(file: str, _root: Path, _mutate: Path, scratch: Path) -> list[Mutant]:
        scratch.mkdir(parents=True)
        made.append(file)
        return mutants(3)

    monkeypatch.setattr(run, "mutants_of", make)
    source, folder = tmp_path / "a.cc", tmp_path / "mutants"
    for content, times in (("int a;", 1), ("int a;", 1), ("int b;", 2)):
        source.write_text(content)
        assert run.kept_mutants_of("a.cc", tmp_path, Path("mutate"), folder) == mutants(3)
        assert len(made) == times
    assert {path.suffix for path in folder.iterdir()} == {".json"}


def test_a_header_is_checked_with_a_source_that_includes_it(tmp_path: Path) -> None:
    room = tmp_path / "bench" / "judge"
    room.mkdir(parents=True)
    (room / "judge.cc").write_text('#include "bench/judge/judge.h"\n#include "bench/judge/kind.h"\n')
    (room / "link_test.cc").write_text("")
    assert run.including("bench/judge/other.cc", tmp_path) == "bench/judge/other.cc"
    for header, source in (("judge", "judge.cc"), ("link", "link_test.cc"), ("kind", "judge.cc"), ("copies", None)):
        assert run.including(f"bench/judge/{header}.h", tmp_path) == (source and f"bench/judge/{source}")


def test_a_sample_depends_on_the_texts_and_the_seed_alone() -> None:
    every = mutants(100)
    chosen = run.shuffled(every, "1")[:10]
    assert chosen == run.shuffled(reversed(every), "1")[:10] and len(set(chosen)) == 10
    assert chosen != run.shuffled(every, "2")[:10]
    moved = [each._replace(line=each.line + 7) for each in every]
    assert [each.key() for each in run.shuffled(moved, "1")[:10]] == [each.key() for each in chosen]


def test_fewer_than_95_percent_are_a_failure_and_name_the_survivors() -> None:
    every = mutants(40)
    judged = [(each, "killed") for each in every[:37]] + [(each, "survived") for each in every[37:]]
    text, enough = run.summary(judged, {})
    assert not enough and "37 of 40 killed, 92.5 %" in text and f"survived: {every[39]}" in text
    accepted = {(each.file, each.old, each.new): "it is equal" for each in every[38:]}
    text, enough = run.summary(judged, accepted)
    assert enough and "37 of 38 killed, 97.4 %; 2 more" in text and str(every[39]) not in text
    assert run.summary([(every[0], "not built")], {})[1]


def test_a_survivor_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "survivors.txt"
    path.write_text("# head\n\na.cc\nx == 0\nx <= 0\nx is never negative\n\n")
    assert run.read_accepted(path) == {("a.cc", "x == 0", "x <= 0"): "x is never negative"}
    path.write_text("a.cc\nx == 0\nx <= 0\n")
    with pytest.raises(ValueError, match="reason"):
        run.read_accepted(path)


def test_a_change_of_the_room_makes_results_void(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    source = tmp_path / "room" / "a.cc"
    source.write_text("int a;\n")
    before = run.state_of("room", tmp_path)
    results = run.Results(tmp_path / "results.json")
    (mutant,) = mutants(1)
    results.put(mutant, before, "killed")
    assert run.Results(tmp_path / "results.json").get(mutant, before) == "killed"
    source.write_text("int b;\n")
    after = run.state_of("room", tmp_path)
    assert run.Results(tmp_path / "results.json").get(mutant, after) is None
    trusting = run.Results(tmp_path / "results.json", lambda _mutant, result: result == "killed")
    assert trusting.get(mutant, after) == "killed"
    trusting.put(mutant, before, "survived")
    assert trusting.get(mutant, after) is None
    assert trusting.get(mutant, before) == "survived"


def test_a_build_folder_is_put_back_with_its_times(tmp_path: Path) -> None:
    build, kept = tmp_path / "build", tmp_path / "kept"
    (build / "folder").mkdir(parents=True)
    same, changed, removed, new = (build / "folder" / f"{name}.o" for name in ("same", "changed", "removed", "new"))
    for each in (same, changed, removed):
        each.write_text("before")
        os.utime(each, ns=(1, 1))
    (build / "link").symlink_to("folder/same.o")
    shutil.copytree(build, kept, symlinks=True)
    changed.write_text("after")
    removed.unlink()
    new.write_text("after")
    run.put_back(kept, build)
    assert changed.read_text() == "before" and removed.exists() and not new.exists()
    assert same.stat().st_mtime_ns == changed.stat().st_mtime_ns == 1
    assert (build / "link").is_symlink()


def test_a_command_that_fails_or_does_not_end_ends_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TREE", tmp_path)
    assert run.all_end_well([run.start(["true"], 20), run.start(["sh", "-c", 'test "$PART" = 1'], 20, PART="1")])
    for failing in (run.start(["false"], 20), run.start(["sleep", "60"], 0.1)):
        others = [run.start(["sleep", "60"], 60) for _ in range(2)]
        assert not run.all_end_well([others[0], failing, others[1]])
        assert all(each.poll() is not None for each in others)


def test_a_room_is_tested_by_its_unit_tests_and_by_short_runs_of_the_programs() -> None:
    tests = run.tests_of("bench/connect")
    assert tests[0] == "bench_connect_test" and tests[1].startswith("verbena bench connect --clients "), tests
    assert run.targets_of(tests) == ["bench_connect_test", "verbena", "verbena-nic"]
    assert run.targets_of(run.tests_of("bench/table")) == ["bench_judge_test", "bench_table_test"]
    assert set(run.SCENARIOS) < set(run.ROOMS)


def test_every_room_has_sources_and_every_accepted_survivor_still_exists() -> None:
    for room in run.ROOMS:
        assert run.files_of(room, run.ROOT), room
    for file, old, _ in run.read_accepted(run.ACCEPTED):
        lines = [line.strip() for line in (run.ROOT / file).read_text().splitlines()]
        assert old in lines, f"{run.ACCEPTED.name} has a line that {file} does not have: {old}"
