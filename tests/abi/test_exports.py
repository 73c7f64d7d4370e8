"""Compares the exports of our library with the installed libibverbs.

We must export every public function that takes a device, a context or an object. One that we do not
export runs in the real library, which takes our context for its own and crashes.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("VERBENA_BUILD", ROOT / "build")) / "libverbena-nic.so"

# Functions that we leave to the real library, and why. A name that ends in * is a prefix.
LEFT_TO_THE_REAL_LIBRARY = {
    "ibv_node_type_str": "takes an enum",
    "ibv_port_state_str": "takes an enum",
    "ibv_event_type_str": "takes an enum",
    "ibv_wc_status_str": "takes an enum",
    "ibv_rate_to_mult": "takes an enum",
    "ibv_rate_to_mbps": "takes an enum",
    "mult_to_ibv_rate": "takes a number",
    "mbps_to_ibv_rate": "takes a number",
    "ibv_copy_ah_attr_from_kern": "converts one plain struct to another",
    "ibv_copy_path_rec_from_kern": "converts one plain struct to another",
    "ibv_copy_path_rec_to_kern": "converts one plain struct to another",
    "ibv_copy_qp_attr_from_kern": "converts one plain struct to another",
    "ibv_dontfork_range": "takes an address range",
    "ibv_dofork_range": "takes an address range",
    "ibv_get_sysfs_path": "takes nothing",
    "ibv_read_ibdev_sysfs_file": "for providers: takes a struct that only the real library makes",
    "ibv_register_driver": "for providers: takes a name and a function",
    "ibv_cmd_*": "for providers: takes contexts that a real provider has made",
    "verbs_*": "for providers: a device is one that a real provider has recognised as its own",
    "_verbs_init_and_alloc_context": "for providers: makes a context for a real device",
    "__verbs_log": "for providers: takes contexts that a real provider has made",
    "execute_ioctl": "for providers: takes contexts that a real provider has made",
    "__ioctl_final_num_attrs": "for providers: takes a number",
}

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
SIGNALS = {"sigaction", "signal", "sigprocmask", "pthread_sigmask"}

# Exports that call_everything cannot call: they take a buffer of ibv_alloc_buf, which fails.
NOT_CALLED = {"ibv_free_buf", "ibv_export_buf_dmabuf_fd"}


def symbols(library: Path) -> list[str]:
    """The names that a library defines, as `name`, `name@VERSION` or `name@@VERSION`."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", "--with-symbol-versions", library], capture_output=True, text=True, check=True
    )
    kinds_and_names = (line.split()[-2:] for line in listing.stdout.splitlines())
    return [name for kind, name in kinds_and_names if kind != "A"]


def is_left(name: str) -> bool:
    return any(name.startswith(left[:-1]) if left.endswith("*") else name == left for left in LEFT_TO_THE_REAL_LIBRARY)


@pytest.fixture(scope="module")
def exported() -> set[str]:
    assert LIBRARY.exists(), f"there is no {LIBRARY}: run `make build`, or name another build folder in VERBENA_BUILD"
    return set(symbols(LIBRARY))


@pytest.fixture(scope="module")
def public() -> set[str]:
    linker = subprocess.run(["cc", "-print-file-name=libibverbs.so.1"], capture_output=True, text=True, check=True)
    path = Path(linker.stdout.strip())
    assert path.is_absolute(), "libibverbs.so.1 is not installed"
    return {name.split("@")[0] for name in symbols(path)}


def test_every_public_function_that_takes_an_object_is_exported(exported: set[str], public: set[str]) -> None:
    assert len(public) > 100
    missing = {name for name in public if not is_left(name)} - exported
    assert not missing, f"calls of these would run in the real library: {sorted(missing)}"


@pytest.mark.parametrize("version", NEWER)
def test_functions_of_newer_releases_are_exported(exported: set[str], version: str) -> None:
    assert not set(NEWER[version]) - exported


def test_functions_left_to_the_real_library_are_not_exported(exported: set[str]) -> None:
    assert not [name for name in exported if is_left(name)]


def test_symbols_have_no_version_so_that_they_satisfy_every_reference(exported: set[str]) -> None:
    assert not [name for name in exported if "@" in name]


def test_nothing_but_verbs_and_signal_functions_is_exported(exported: set[str], public: set[str]) -> None:
    newer = {name for names in NEWER.values() for name in names}
    assert not exported - public - newer - SIGNALS


def test_every_exported_function_answers_on_our_device(exported: set[str], tmp_path: Path) -> None:
    program = tmp_path / "call_everything"
    source = Path(__file__).with_name("call_everything.c")
    flags = ["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, source, "-o", program, "-libverbs", "-ldl"], check=True)
    done = subprocess.run(
        [program, LIBRARY.name],
        env=os.environ | {"LD_PRELOAD": str(LIBRARY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"exit code {done.returncode} after:\n{done.stdout}{done.stderr}"
    called = {line.split()[0] for line in done.stdout.splitlines()}
    assert exported - SIGNALS - NOT_CALLED <= called
