# SPDX-License-Identifier: Apache-2.0
"""run_module.py TREE DEVICE MODULE: run one module of rdma-core's suite.

Prints a line for each case: its name, then ok, skip or fail, then the reason, separated by tabs.
TREE holds the suite as a package named `tests`.
"""

import sys
import unittest


class Verdicts(unittest.TestResult):
    """Prints each verdict at once, so that the verdicts before a crash or a hang are known."""

    def say(self, case: unittest.TestCase, verdict: str, why: str = "") -> None:
        print(case.id(), verdict, " ".join(why.split()), sep="\t", flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.say(test, "ok")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.say(test, "skip", reason)

    def addFailure(self, test: unittest.TestCase, err: tuple) -> None:
        self.say(test, "fail", self._exc_info_to_string(err, test))

    addError = addFailure


def main() -> None:
    tree, device, module = sys.argv[1:]
    sys.path[:0] = [tree, f"{tree}/tests"]  # the suite imports its modules by either name
    from args_parser import parser

    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    unittest.defaultTestLoader.loadTestsFromName(f"tests.{module}").run(Verdicts())


main()
