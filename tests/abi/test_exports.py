# SPDX-License-Identifier: Apache-2.0
"""Compares the exports of our library with the installed libibverbs.

Our library is a program's libibverbs.so.1, so it must export every name of the real one, in the
same version. A function that takes a device, a context or an object must never run in the real
library on one of ours, which the real library would take for its own.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("VERBENA_BUILD", ROOT / "build"))
LIBRARY = BUILD / "libverbena-nic.so"
FOLDER = BUILD / "libibverbs"

FORWARDED_NAMES = ROOT / "nic" / "verbs" / "forwarded_names.h"

# Functions of our NIC that take no device, context or object. same_results.py calls them.
PLAIN = {
    "ibv_node_type_str",
    "ibv_port_state_str",
    "ibv_event_type_str",
    "ibv_wc_status_str",
    "ibv_rate_to_mult",
    "ibv_rate_to_mbps",
    "mult_to_ibv_rate",
    "mbps_to_ibv_rate",
    "ibv_copy_ah_attr_from_kern",
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_get_sysfs_path",
}

# For providers: a variable that they read, and a function that does nothing in rdma-core either.
PROVIDERS_OWN = {"verbs_allow_disassociate_destroy", "ibv_register_driver"}

# Public functions of newer releases of libibverbs: programs built with those run on our contexts
# too.
NEWER = {
    "IBVERBS_1.15": ["ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"],
    "IBVERBS_1.16": ["ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"],
    "IBVERBS_1.17": ["ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"],
    "IBVERBS_1.18": [
        "_ibv_query_comp_cntr_caps",
        "ibv_create_comp_cntr",
        "ibv_destroy_comp_cntr",
        "ibv_export_buf_dmabuf_fd",
        "ibv_inc_comp_cntr",
        "ibv_inc_err_comp_cntr",
        "ibv_qp_attach_comp_cntr",
        "ibv_read_comp_cntr",
        "ibv_read_err_comp_cntr",
        "ibv_set_comp_cntr",
        "ibv_set_err_comp_cntr",
    ],
}

# Exports that are not libibverbs'. A program's own handlers and masks for SIGSEGV and SIGBUS must
# coexist with ours.
SIGNALS = {
    *("sigaction", "__sigaction", "sigset", "sigignore", "signal", "bsd_signal", "ssignal"),
    *("__sysv_signal", "sysv_signal"),
    *("sigprocmask", "pthread_sigmask", "pthread_attr_setsigmask_np", "sighold", "sigblock", "sigsetmask"),
}

# The functions of libc by which programs find devices in the file system (nic/presence).
FILE_CALLS = """
    open open64 __open_2 __open64_2 openat openat64 __openat_2 __openat64_2
    fopen fopen64 freopen freopen64 opendir
    stat stat64 lstat lstat64 fstat fstat64 fstatat fstatat64 statx
    __xstat __xstat64 __lxstat __lxstat64 __fxstat __fxstat64 __fxstatat __fxstatat64
    access euidaccess eaccess faccessat readlink readlinkat __readlink_chk __readlinkat_chk
    realpath __realpath_chk canonicalize_file_name chdir fchdir getcwd scandir scandir64 glob glob64
    getxattr lgetxattr listxattr llistxattr syscall openat2 socket
"""
FILES = set(FILE_CALLS.split())
# The functions of libc that give and take page-aligned memory (nic/heap).
HEAP_CALLS = """
    posix_memalign memalign aligned_alloc valloc pvalloc
    free cfree free_sized free_aligned_sized realloc reallocarray malloc_usable_size madvise
"""
HEAP = set(HEAP_CALLS.split())
LIBC = SIGNALS | FILES | HEAP


def symbols(library: Path) -> list[str]:
    """The names that a library defines, as `name`, `name@VERSION` or `name@@VERSION`."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True, check=True
    )
    kinds_and_names = (line.split()[-2:] for line in listing.stdout.splitlines())
    return [name for kind, name in kinds_and_names if kind != "A"]


def version_nodes(library: Path) -> set[str]:
    """The versions that a library says it defines: the loader looks for them by name."""
    listing = subprocess.run(
        ["readelf", "--version-info", "--wide", library], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"Name: (IBVERBS_\w+(?:\.\d+)?)", listing.stdout))


def bare(names: Iterable[str]) -> set[str]:
    return {name.split("@")[0] for name in names}


@pytest.fixture(scope="module")
def exported() -> set[str]:
    assert LIBRARY.exists(), f"there is no {LIBRARY}: run `make build`, or name another build folder in VERBENA_BUILD"
    return set(symbols(LIBRARY))


@pytest.fixture(scope="module")
def installed() -> Path:
    linker = subprocess.run(["cc", "-print-file-name=libibverbs.so.1"], capture_output=True, text=True, check=True)
    path = Path(linker.stdout.strip())
    assert path.is_absolute(), "libibverbs.so.1 is not installed"
    return path.resolve()


@pytest.fixture(scope="module")
def forwarded() -> set[str]:
    """The functions that only the real library can serve."""
    return set(re.findall(r"^\tX\((\w+), ", FORWARDED_NAMES.read_text(), re.MULTILINE))


def test_every_name_of_the_installed_library_is_exported(exported: set[str], installed: Path) -> None:
    public = bare(symbols(installed))
    assert len(public) > 100
    missing = public - bare(exported)
    assert not missing, f"a program or provider that uses one of these could not be loaded: {sorted(missing)}"


def test_every_public_name_has_the_version_that_the_installed_library_has(exported: set[str], installed: Path) -> None:
    versioned = {name for name in symbols(installed) if "@@IBVERBS_1." in name}
    assert len(versioned) > 70
    assert not versioned - exported


def test_every_version_of_the_installed_library_is_defined(installed: Path) -> None:
    needed = version_nodes(installed)
    assert {"IBVERBS_1.0", "IBVERBS_1.1", "IBVERBS_PRIVATE_34"} <= needed
    assert not needed - version_nodes(LIBRARY)


@pytest.mark.parametrize("version", NEWER)
def test_functions_of_newer_releases_are_exported(exported: set[str], version: str) -> None:
    assert not {f"{name}@@{version}" for name in NEWER[version]} - exported


def test_functions_of_libc_and_for_providers_have_no_version(exported: set[str], forwarded: set[str]) -> None:
    # The loader takes an unversioned definition for a reference to any version.
    unversioned = {name for name in exported if "@" not in name}
    assert unversioned >= LIBC
    public = {"ibv_dontfork_range", "ibv_dofork_range"}
    assert unversioned >= forwarded - public
    assert exported >= {f"{name}@@IBVERBS_1.1" for name in public}


def test_nothing_but_verbs_and_the_named_functions_of_libc_is_exported(
    exported: set[str], forwarded: set[str], installed: Path
) -> None:
    newer = {name for names in NEWER.values() for name in names}
    assert not bare(exported) - bare(symbols(installed)) - forwarded - newer - LIBC


def test_functions_that_take_no_object_answer_as_the_installed_library_does(installed: Path) -> None:
    script = Path(__file__).with_name("same_results.py")
    done = subprocess.run(
        [sys.executable, script, LIBRARY, installed], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


# The ways in which a program that is linked with libibverbs gets our library.
@pytest.mark.parametrize(
    ("way", "file"),
    [({"LD_PRELOAD": str(LIBRARY)}, LIBRARY.name), ({"LD_LIBRARY_PATH": str(FOLDER)}, "libibverbs/libibverbs.so.1")],
    ids=["preloaded", "on the library path"],
)
def test_every_exported_function_answers_on_our_device(
    exported: set[str], forwarded: set[str], tmp_path: Path, way: dict[str, str], file: str
) -> None:
    program = tmp_path / "call_everything"
    source = Path(__file__).with_name("call_everything.c")
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, source, "-o", program, "-libverbs", "-ldl"], check=True)
    done = subprocess.run(
        [program, file], env=os.environ | way, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode} after:\n{done.stdout}{done.stderr}"
    called = {line.split()[0] for line in done.stdout.splitlines()}
    assert bare(exported) - LIBC - PLAIN - PROVIDERS_OWN - forwarded <= called
