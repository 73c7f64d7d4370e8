# SPDX-License-Identifier: Apache-2.0
"""tests/run.py reads the runners' reports correctly, so that no failure or skip is lost."""

from pathlib import Path

from run import EXPECTED_SKIPS, Outcome, expected_skips, is_expected, outcomes

CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-g++" tests="4" failures="1" disabled="1" skipped="1">
	<testcase name="base: Sizes.Reads" classname="base: Sizes.Reads" time="0.01" status="run">
		<system-out>[       OK ] Sizes.Reads (0 ms)</system-out>
	</testcase>
	<testcase name="nic/link: Udp.Gso" classname="nic/link: Udp.Gso" time="0.01" status="notrun">
		<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
		<system-out>[ RUN      ] Udp.Gso
nic/link/udp_link_test.cc:12: Skipped
no UDP_SEGMENT in this kernel
[  SKIPPED ] Udp.Gso (0 ms)</system-out>
	</testcase>
	<testcase name="nic/wire: Bth.Reads" classname="nic/wire: Bth.Reads" time="0.01" status="fail">
		<failure message=""/>
	</testcase>
	<testcase name="nic/wire: Off" classname="nic/wire: Off" time="0" status="disabled"/>
</testsuite>
"""
PYTEST = """<testsuites><testsuite>
<testcase classname="tests.a" name="test_good" time="0.1"/>
<testcase classname="tests.a" name="test_bad" time="0.1"><failure message="no">trace</failure></testcase>
<testcase classname="tests.a" name="test_unmade" time="0.1"><error message="no">trace</error></testcase>
<testcase classname="tests.a" name="test_left_out" time="0.1">
<skipped type="pytest.skip" message="no namespaces">x</skipped></testcase>
</testsuite></testsuites>
"""


def read(folder: Path, text: str) -> list[Outcome]:
    report = folder / "report.xml"
    report.write_text(text)
    return outcomes(report)


def test_ctest_reports_are_read_and_a_disabled_test_counts_as_failed(tmp_path: Path) -> None:
    assert read(tmp_path, CTEST) == [
        Outcome("base: Sizes.Reads", "passed"),
        Outcome("nic/link: Udp.Gso", "skipped", "no UDP_SEGMENT in this kernel"),
        Outcome("nic/wire: Bth.Reads", "failed"),
        Outcome("nic/wire: Off", "failed"),
    ]


def test_pytest_reports_are_read_and_an_error_counts_as_failed(tmp_path: Path) -> None:
    assert read(tmp_path, PYTEST) == [
        Outcome("tests.a::test_good", "passed"),
        Outcome("tests.a::test_bad", "failed"),
        Outcome("tests.a::test_unmade", "failed"),
        Outcome("tests.a::test_left_out", "skipped", "no namespaces"),
    ]


def test_only_a_listed_skip_is_expected() -> None:
    patterns = expected_skips("# why\n\n*test_left_out: no names*\n")
    assert is_expected(Outcome("tests.a::test_left_out", "skipped", "no namespaces"), patterns)
    assert not is_expected(Outcome("tests.a::test_left_out", "skipped", "too slow"), patterns)
    assert not is_expected(Outcome("tests.a::test_other", "skipped", "no namespaces"), patterns)


def test_the_list_expects_a_machine_without_network_namespaces() -> None:
    patterns = expected_skips(EXPECTED_SKIPS.read_text())
    name = "tests.clients.test_two_hosts::test_pingpong_crosses_the_wire[1500-ibv_rc_pingpong-64]"
    assert is_expected(Outcome(name, "skipped", "no network namespaces here: unshare --net is refused"), patterns)
    assert not is_expected(Outcome(name, "skipped", "no reason"), patterns)
