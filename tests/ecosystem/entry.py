# SPDX-License-Identifier: Apache-2.0
"""The form of an entry in the table of programs (programs.py), and what running it gives.

An entry names one thing that another program must do on the NIC: its command lines, and how a
success is recognised. Entries are data: the gate, the tests and the page read the same table.
"""

import signal
import sys
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The modules for pairs of programs and for namespaces are shared with tests/clients. Each module of
# this folder imports this one before them.
sys.path.insert(0, str(ROOT / "tests" / "clients"))

# Where an entry runs: both sides in one network namespace, or each side in its own. To the NIC, two
# namespaces are two hosts.
ONE_HOST = "one host"
TWO_HOSTS = "two hosts"
PLACES = (ONE_HOST, TWO_HOSTS)

# A check is one way of running an entry.
PLAIN = "runs"
CLIENT_KILLED = "client killed"
SERVER_KILLED = "server killed"

RUNS, FAILS, MISSING = "runs", "fails", "missing"


@dataclass(frozen=True)
class Program:
    """A program, or a set of programs with one version.

    origin   where it comes from, with the package's name
    version  the command that prints the version
    pattern  finds the version in the output; its first group is the version
    """

    name: str
    origin: str
    version: str
    pattern: str = r"(\d+\.\d[\w.+-]*)"


@dataclass(frozen=True)
class Kill:
    """The effect that the death of one side (SIGKILL in the middle) must have on the other.

    survivor   "ends": the other side ends by itself within `within_s`, with any status
               "goes on": it is still there after `within_s`, as it would be on hardware, where it
               gets no notice; the runner then ends it with `last_signal`
               "either": it depends on the moment of the kill
    victim     the name of the process to kill; empty: any name. The victim is the process with the
               most CPU time, of the command and its descendants
    cpu_s      the victim is in the middle when it has used this much CPU time
    """

    survivor: str = "ends"
    within_s: float = 20
    victim: str = ""
    cpu_s: float = 0.5
    last_signal: signal.Signals = signal.SIGTERM


@dataclass(frozen=True)
class Entry:
    """One row of the table.

    name         what the program does here; unique
    program      a key of programs.PROGRAMS
    client       a command line as a user would type it; it may start with NAME=VALUE
    server       the same; empty if there is none
    says         patterns that must occur in what the client prints; {device}: as below
    server_says  the same for the server
    may_say      what the programs may print although it reads like an error
    ready        when the client may start: "tcp" or "cm": the server has the port of that kind;
                 else a pattern in what the server has printed; a group in it is the port
    port         a fixed port; 0: a free one
    server_ends  whether the server ends by itself, with status 0; otherwise the runner ends it
    rounds       what {n} stands for: in the plain check, and in a kill check (too many to finish)
    kill         by the check's name (CLIENT_KILLED, SERVER_KILLED); the rounds of a kill check must
                 last long enough
    endless_s    the programs do not end by themselves: both must still run after this time
    quick        also in `make test`

    In the command lines these are replaced:
      {run}      verbena run --
      {address}  the server's address; {own}: the address of the side itself
      {device}   the device of the side itself
      {port}     the port; {n}: see `rounds`
      {folder}   an empty folder for this run; {helpers}: the folder of this table's own programs
      {python}   the interpreter that has the wheels; {wheels}: where they are installed
      {system_python}  Debian's interpreter
      {ucx}      a folder with UCX's newest libraries; {hosts}: options of mpirun
    """

    name: str
    program: str
    client: str
    server: str = ""
    says: tuple[str, ...] = ()
    server_says: tuple[str, ...] = ()
    may_say: str = ""
    ready: str = "tcp"
    port: int = 0
    server_ends: bool = True
    rounds: tuple[int, int] = (1000, 1_000_000_000)
    places: tuple[str, ...] = PLACES
    limit_s: float = 60
    kill: tuple[tuple[str, Kill], ...] = ()
    endless_s: float = 0
    quick: bool = False

    def checks(self) -> tuple[str, ...]:
        return (PLAIN, *(name for name, _ in self.kill))


@dataclass(frozen=True)
class Known:
    """A check that is known to fail, and why.

    entry, place, check  patterns (fnmatch) of what it concerns
    says                 a pattern that the failure's text must contain
    why                  one sentence for the page
    may_run              whether it runs depends on the machine
    """

    entry: str
    why: str
    says: str = ""
    place: str = "*"
    check: str = "*"
    may_run: bool = False

    def concerns(self, entry: str, place: str, check: str) -> bool:
        patterns = ((entry, self.entry), (place, self.place), (check, self.check))
        return all(fnmatchcase(text, pattern) for text, pattern in patterns)


@dataclass(frozen=True)
class Result:
    """The outcome of one check of an entry.

    verdict  RUNS, FAILS or MISSING
    detail   empty if it runs; else what went wrong, with the output of the programs
    why      the reason in the table of known failures, if the check is listed there
    agrees   whether the table of known failures says the same
    """

    entry: str
    program: str
    place: str
    check: str
    verdict: str
    detail: str
    why: str
    agrees: bool
    seconds: float
