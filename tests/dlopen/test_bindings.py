# SPDX-License-Identifier: Apache-2.0
"""The loader's own record (LD_DEBUG=bindings) of the library to which each reference goes."""

import re
from pathlib import Path

from conftest import NIC, WAYS, Compile, Way, run

BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'(?: \[(\S+)\])?")


def bindings(way: Way, program: Path, log: Path) -> set[tuple[str, str, str, str]]:
    """Run a program; return (from, to, symbol, version) for each reference that was bound."""
    run(way, program, variables={"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(log), "LD_BIND_NOW": "1"})
    text = "".join(path.read_text() for path in log.parent.glob(f"{log.name}.*"))
    return {match.groups("") for match in BINDING.finditer(text)}


def test_a_program_refers_to_libcs_functions_by_version_and_gets_ours(compiled: Compile, tmp_path: Path) -> None:
    program = compiled("strict_posix.c", "-D_POSIX_C_SOURCE=200809L", "-libverbs")
    bound = bindings(WAYS["verbena run"], program, tmp_path / "log")
    ours = {(symbol, version) for origin, to, symbol, version in bound if (origin, to) == (str(program), str(NIC))}
    names = {symbol for symbol, _ in ours}
    assert {"__sysv_signal", "sigaction", "pthread_sigmask", "open", "stat", "ibv_get_device_list"} <= names
    assert {version.split("_")[0] for _, version in ours} == {"GLIBC", "IBVERBS"}


def test_no_library_reaches_the_real_one_for_a_verb(compiled: Compile, tmp_path: Path, way: Way) -> None:
    # mlx5, efa and librdmacm refer to functions of libibverbs by the versions of their own release.
    program = compiled("providers.c", "-libverbs", "-lmlx5", "-lefa", "-Wl,--no-as-needed", "-lrdmacm")
    bound = bindings(way, program, tmp_path / "log")
    verbs = {
        (origin, to, symbol)
        for origin, to, symbol, version in bound
        if version.startswith("IBVERBS_") and not re.search(r"libverbena-nic\.so|libibverbs\.so", origin)
    }
    origins = {Path(origin).name for origin, _, _ in verbs}
    assert {"libmlx5.so.1", "libefa.so.1", "librdmacm.so.1", program.name} <= origins
    assert not {entry for entry in verbs if not Path(entry[1]).samefile(NIC)}
