# SPDX-License-Identifier: Apache-2.0
"""Each rule of `verbena run --check` finds the mistake of a program, and leaves its twin alone."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from checked import FIXED_ADDRESSES, ROOT, RULES_BROKEN, VERBENA, Checked, has_debug_registers
from conftest import compiled

SOURCE = (ROOT / "nic/rules/rule.cc").read_text()
SEVERITIES = dict(re.findall(r'\{"([a-z0-9-]+)", (error|portability|advice),', SOURCE))
RULES = sorted(SEVERITIES)
FILES = {"lifetime.c", "buffers.c", "queues.c", "ordering.c", "portability.c"}

# The other rules that a program breaks, because it cannot be wrong in one way only.
ALSO = {
    "sq-unsignaled-full": {"qp-destroy-with-work"},
    "signaled-flag-missing": {"qp-destroy-with-work"},
    "stack-buffer-in-flight": {"send-buffer-modified"},
    "cm-destroy-order": {"pd-destroy-order"},
    "cq-overrun": {"cq-too-small"},
    "sq-depth-by-luck": {"qp-destroy-with-work"},
    "send-completion-means-slot": {"qp-destroy-with-work"},
}
# The mistake of these keeps the program from ending; it ends itself by a signal.
ENDLESS = {"ack-missing", "notify-not-armed"}


def test_there_are_rules() -> None:
    assert len(RULES) > 35


@pytest.mark.parametrize("rule", RULES)
def test_the_mistake_is_found(checked: Checked, rule: str) -> None:
    if rule == "poll-memory-write" and not has_debug_registers():
        pytest.skip("no debug registers here")
    ran = checked.program(rule, "broken")
    assert rule in ran.rules(), ran
    assert ran.rules() <= {rule} | ALSO.get(rule, set()), ran
    assert ran.status == RULES_BROKEN, ran
    finding = next(each for each in ran.findings if each["rule"] == rule)
    assert finding["severity"] == SEVERITIES[rule]
    # The place in the program, with its function and line, without the functions of the header.
    assert any(Path(frame.get("file", "")).name in FILES and frame["line"] > 0 for frame in finding["stack"]), finding
    assert not any("infiniband/verbs.h" in frame.get("file", "") for frame in finding["stack"]), finding
    assert finding["what"] in ran.errors and finding["why"] in ran.errors


@pytest.mark.parametrize("rule", RULES)
def test_the_twin_is_left_alone(checked: Checked, rule: str) -> None:
    ran = checked.program(rule, "fixed")
    assert ran.findings == [] and ran.status == 0, ran
    assert "verbena: check: no findings" in ran.errors


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_page(rule: str) -> None:
    page = ROOT / "docs/rules" / f"{rule}.md"
    assert page.is_file(), f"write {page.relative_to(ROOT)}"
    text = page.read_text()
    assert text.startswith(f"# {rule}\n") and SEVERITIES[rule] in text
    assert f"]({rule}.md)" in (ROOT / "docs/rules/README.md").read_text()


@pytest.mark.parametrize("level", ["error", "portability", "advice"])
def test_a_level_leaves_out_what_is_below_it(checked: Checked, level: str) -> None:
    order = ["error", "portability", "advice"]
    for rule in ("inline-too-long", "reset-to-reset", "qkey-constant"):
        ran = checked.program(rule, "broken", level=level)
        shown = order.index(SEVERITIES[rule]) <= order.index(level)
        assert (ran.status == RULES_BROKEN) == shown, (rule, ran)


def test_check_without_a_level_means_error(checked: Checked) -> None:
    words = [str(checked.programs), "qkey_constant", "broken"]
    done = subprocess.run([VERBENA, "run", "--check", "--", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "no findings" in done.stderr, done


@pytest.mark.parametrize(
    "pattern",
    ["send-buffer-modified:send_buffer_mod*", "*:programs", "send-buffer-modified:*buffers.c  # known"],
)
def test_a_suppressed_finding_is_counted_and_not_shown(checked: Checked, pattern: str) -> None:
    known = checked.folder / "known"
    known.write_text(f"# Known ones\n\n{pattern}\n")
    ran = checked.program("send-buffer-modified", "broken", "--suppressions", str(known))
    assert ran.status == 0 and "no findings; 1 suppressed" in ran.errors, ran
    assert [finding["suppressed"] for finding in ran.findings] == [True]


def test_a_suppression_of_another_place_hides_nothing(checked: Checked) -> None:
    known = checked.folder / "known"
    known.write_text("send-buffer-modified:elsewhere\nrecv-overlap:*\n")
    ran = checked.program("send-buffer-modified", "broken", "--suppressions", str(known))
    assert ran.status == RULES_BROKEN, ran


@pytest.mark.parametrize("text", ["nonsense", ":x", "rule:"])
def test_a_wrong_line_of_a_suppressions_file_is_named(checked: Checked, text: str) -> None:
    known = checked.folder / "known"
    known.write_text(f"# one\n{text}\n")
    ran = checked.program("inline-too-long", "fixed", "--suppressions", str(known))
    assert ran.status == 2 and f"{known}:2: " in ran.errors, ran


def test_options_of_check_need_check(checked: Checked, tmp_path: Path) -> None:
    words = [VERBENA, "run", "--report", str(tmp_path / "r"), "--", "true"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "need --check" in done.stderr, done


def test_the_sarif_report_has_rules_results_and_places(checked: Checked) -> None:
    sarif = checked.folder / "report.sarif"
    checked.program("mr-dereg-in-flight", "broken", "--report", str(sarif))
    document = json.loads(sarif.read_text())
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    (result,) = run["results"]
    assert result["level"] == "error" and result["ruleId"] == "mr-dereg-in-flight"
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "mr-dereg-in-flight"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("lifetime.c") and place["region"]["startLine"] > 0
    assert any("registered here" in each["message"]["text"] for each in result["relatedLocations"])


def test_a_rule_that_is_broken_at_one_place_again_is_counted(checked: Checked) -> None:
    ran = checked.program("send-buffer-modified", "broken-3")
    (finding,) = ran.findings
    assert finding["count"] == 3, ran


def test_a_completion_that_another_thread_polls_before_the_post_returns_is_not_missed(
    checked: Checked, threads: Path
) -> None:
    ran = checked.command([str(threads)])
    assert ran.status == 0 and ran.findings == [], ran


def test_a_program_without_verbs_has_no_findings(checked: Checked) -> None:
    ran = checked.command(["true"])
    assert ran.status == 0 and "no findings" in ran.errors, ran
    ran = checked.command(["sh", "-c", "exit 7"])
    assert ran.status == 7, ran


def test_a_checked_program_can_be_traced(checked: Checked) -> None:
    trace = checked.folder / "trace.txt"
    ran = checked.program("send-buffer-modified", "broken", f"--trace={trace}")
    assert ran.status == RULES_BROKEN and ran.rules() == {"send-buffer-modified"}, ran
    lines = trace.read_text()
    assert "posts RDMA_WRITE" in lines and "polled RDMA_WRITE" in lines and " <- " in lines, lines


def test_findings_of_child_processes_count(checked: Checked) -> None:
    ran = checked.command(["sh", "-c", f"{checked.programs} inline_too_long broken; exit 0"])
    assert ran.status == RULES_BROKEN and ran.rules() == {"inline-too-long"}, ran


def test_without_the_tool_the_findings_are_on_standard_error(checked: Checked) -> None:
    environment = {
        **os.environ,
        "VERBENA_CHECK": "error",
        "LD_PRELOAD": str(Path(VERBENA).parent / "libverbena-nic.so"),
    }
    words = [str(checked.programs), "inline_too_long", "broken"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 0
    assert "verbena: check: inline-too-long (error): " in done.stderr, done
    environment["VERBENA_CHECK"] = "everything"
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=environment)
    assert "VERBENA_CHECK is everything, which is none of" in done.stderr, done


def test_a_flag_that_is_polled_is_found_and_a_counter_is_left_alone(checked: Checked) -> None:
    ran = checked.program("flag-polled", "fixed")
    assert ran.status == 0 and ran.findings == [], ran
    if not has_debug_registers():
        pytest.skip("no debug registers here")
    ran = checked.program("flag-polled", "broken")
    assert ran.rules() == {"poll-memory-write"}, ran
    assert any(frame.get("function") == "flag_polled" for frame in ran.findings[0]["stack"]), ran


@pytest.mark.parametrize("program", ["recv_read_early", "read_sink_touched"])
def test_the_address_sanitizer_finds_the_use_of_memory_that_the_device_owns(
    checked: Checked, sanitized_programs: Path, program: str
) -> None:
    ran = checked.command([str(sanitized_programs), program, "broken"])
    assert ran.status != 0 and "use-after-poison" in ran.errors, ran
    assert f"in {program}" in ran.errors, ran
    ran = checked.command([str(sanitized_programs), program, "fixed"])
    assert ran.status == 0 and "AddressSanitizer" not in ran.errors, ran


@pytest.mark.parametrize("program", ["send_buffer_modified", "recv_touched", "recv_read_early", "read_sink_touched"])
def test_the_thread_sanitizer_finds_a_race_with_the_device(
    checked: Checked, raced: Callable[[str], Path], program: str
) -> None:
    ran = checked.command([str(raced("programs")), program, "broken"])
    assert ran.status != 0 and "data race" in ran.errors and "'the RDMA device'" in ran.errors, ran
    use, post = (part.split("\n\n")[0] for part in re.split(r"\n  Previous ", ran.errors, maxsplit=1))
    assert f" {program} " in use and f" {program} " in post and "ibv_post_" in post, ran
    ran = checked.command([str(raced("programs")), program, "fixed"])
    assert ran.status == 0 and "ThreadSanitizer" not in ran.errors, ran


# Regression: with a trace the order was lost: its functions did not call those in the table.
@pytest.mark.parametrize("options", [[], ["--check"], ["--trace=/dev/null"]], ids=["alone", "checked", "traced"])
@pytest.mark.parametrize("way", ["sent", "received", "receive", "shared", "extended", "unrelated"])
def test_a_message_orders_two_threads_for_the_thread_sanitizer(
    raced: Callable[[str], Path], way: str, options: list[str]
) -> None:
    words = [*FIXED_ADDRESSES, VERBENA, "run", *options, "--", str(raced("messages")), way]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ("data race" in done.stderr) == (way == "unrelated"), done
    assert (done.returncode == 0) == (way != "unrelated"), done


def test_the_thread_sanitizer_says_nothing_of_threads_that_wait_for_each_other(
    checked: Checked, raced: Callable[[str], Path]
) -> None:
    ran = checked.command([str(raced("threads"))])
    assert ran.status == 0 and ran.findings == [] and "ThreadSanitizer" not in ran.errors, ran


def test_threads_that_share_a_queue_pair_and_a_completion_queue_are_right(checked: Checked, tmp_path: Path) -> None:
    """The completion of one thread's request ended the record of another thread's."""
    ran = checked.command([str(compiled("together", tmp_path))], level="portability")
    assert ran.status == 0 and ran.findings == [], ran


def test_a_finding_names_the_caller_of_the_helper_that_posts(checked: Checked, tmp_path: Path) -> None:
    """It named the first caller of all."""
    ran = checked.command([str(compiled("callers", tmp_path))], level="error")
    assert [each["rule"] for each in ran.findings] == ["send-buffer-modified"], ran
    (finding,) = ran.findings
    for stack in (finding["stack"], finding["notes"][-1]["stack"]):
        assert "hasty" in [frame.get("function") for frame in stack], finding
        assert "patient" not in [frame.get("function") for frame in stack], finding
