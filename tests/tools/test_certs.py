# SPDX-License-Identifier: Apache-2.0
"""`verbena certs`: Python's ssl module, whose checks are stricter than those of OpenSSL alone,
accepts the certificates, and no file is overwritten without --force.
"""

import os
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from programs import Programs, Ran

SET = ["ca.key", "ca.pem", "client.key", "client.pem", "server.key", "server.pem"]


def make(programs: Programs, *options: object, folder: str = "certs") -> Ran:
    return programs.run("verbena", "certs", "--dir", folder, *options)


def greet(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bytes:
    """Connect client and server by TLS in two threads.

    Returns the bytes that the client receives; they are empty if the server fails.
    """
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    theirs.settimeout(20)

    def serve() -> None:
        try:
            with server.wrap_socket(theirs, server_side=True) as stream:
                stream.sendall(b"hello")
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with client.wrap_socket(ours, server_hostname=name) as stream:
            return stream.recv(5)
    finally:
        ours.close()
        thread.join()


def contexts(
    folder: Path, server_name: str = "server", client_name: str = "client"
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_cert_chain(folder / f"{server_name}.pem", folder / f"{server_name}.key")
    client = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=folder / "ca.pem")
    client.load_cert_chain(folder / f"{client_name}.pem", folder / f"{client_name}.key")
    return server, client


def test_a_set_is_six_files_and_only_the_user_can_read_the_keys(programs: Programs) -> None:
    ran = make(programs, "--host", "localhost", "--host", "10.0.0.7")
    assert ran.status == 0, ran
    folder = programs.folder / "certs"
    assert sorted(file.name for file in folder.iterdir()) == SET
    modes = {name: stat.S_IMODE((folder / name).stat().st_mode) for name in SET}
    assert modes == {name: 0o600 if name.endswith(".key") else 0o644 for name in SET}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_it_prints_the_options_for_each_side(programs: Programs) -> None:
    ran = make(programs, "--host", "localhost", "--host", "10.0.0.7")
    folder = programs.folder / "certs"
    for side in ("server", "client"):
        assert f"--ca {folder}/ca.pem --cert {folder}/{side}.pem --key {folder}/{side}.key" in ran.out, ran
    assert "localhost, 10.0.0.7" in ran.out and "VERBENA_CA" in ran.out, ran


@pytest.mark.parametrize("name", ["localhost", "10.0.0.7", "::1", "db1.example.org"])
def test_a_server_is_accepted_by_each_of_its_names(programs: Programs, name: str) -> None:
    hosts = [word for host in ("localhost", "10.0.0.7", "::1", "*.example.org") for word in ("--host", host)]
    assert make(programs, *hosts).status == 0
    assert greet(*contexts(programs.folder / "certs"), name) == b"hello"


def test_a_server_is_refused_by_another_name(programs: Programs) -> None:
    assert make(programs, "--host", "localhost").status == 0
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        greet(*contexts(programs.folder / "certs"), "db1.example.org")


def test_a_client_certificate_is_refused_for_a_server_and_a_server_certificate_for_a_client(programs: Programs) -> None:
    assert make(programs, "--host", "localhost").status == 0
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        greet(*contexts(programs.folder / "certs", server_name="client"), "localhost")
    # With TLS 1.3 the client gets the server's verdict when it first reads.
    with pytest.raises(OSError):
        assert greet(*contexts(programs.folder / "certs", client_name="server"), "localhost") == b"hello"


def test_an_existing_set_is_replaced_only_with_force(programs: Programs) -> None:
    assert make(programs, "--host", "localhost").status == 0
    folder = programs.folder / "certs"
    before = {name: (folder / name).read_bytes() for name in SET}
    ran = make(programs, "--host", "localhost")
    assert ran.status == 1 and "--force" in ran.err and ran.err.count("\n") == 1, ran
    assert {name: (folder / name).read_bytes() for name in SET} == before
    assert make(programs, "--host", "localhost", "--force").status == 0
    assert all((folder / name).read_bytes() != before[name] for name in SET)
    assert sorted(file.name for file in folder.iterdir()) == SET


def test_one_existing_file_is_enough_to_stop(programs: Programs) -> None:
    folder = programs.folder / "certs"
    folder.mkdir()
    (folder / "client.key").write_text("precious")
    assert make(programs, "--host", "localhost").status == 1
    assert [file.name for file in folder.iterdir()] == ["client.key"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--dir", "certs"],
        ["--host", "localhost"],
        ["--show", "--dir", "certs", "--host", "localhost"],
        ["--dir", "certs", "--host", "a b"],
        ["--dir", "certs", "--host", "x,DNS:y"],
        ["--dir", "certs", "--host", "localhost", "--days", "0"],
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_usage(programs: Programs, options: list[str]) -> None:
    ran = programs.run("verbena", "certs", *options)
    assert ran.status == 2 and not (programs.folder / "certs").exists(), ran


def test_a_folder_that_cannot_be_made_is_named(programs: Programs) -> None:
    ran = make(programs, "--host", "localhost", folder="/proc/certs")
    assert ran.status == 1 and "/proc/certs" in ran.err, ran


def test_showing_an_identity_does_not_make_one(programs: Programs) -> None:
    environment = os.environ | {"XDG_CONFIG_HOME": str(programs.folder / "config")}
    ran = programs.run("verbena", "certs", "--show", env=environment)
    assert ran.status == 1 and "no identity yet" in ran.err, ran
    assert not (programs.folder / "config").exists()


def test_an_identity_is_shown_with_its_fingerprint(programs: Programs) -> None:
    # An identity is a key and its certificate in one file.
    assert make(programs, "--host", "localhost").status == 0
    folder = programs.folder / "config" / "verbena"
    folder.mkdir(parents=True, mode=0o700)
    file = folder / "identity.pem"
    file.write_bytes(b"".join((programs.folder / "certs" / name).read_bytes() for name in ("client.key", "client.pem")))
    file.chmod(0o600)
    environment = os.environ | {"XDG_CONFIG_HOME": str(programs.folder / "config")}
    ran = programs.run("verbena", "certs", "--show", env=environment)
    path, fingerprint = ran.out.splitlines()
    assert ran.status == 0 and path == str(file), ran
    assert fingerprint.startswith("SHA256:") and len(fingerprint) == 50, ran
    file.chmod(0o644)
    ran = programs.run("verbena", "certs", "--show", env=environment)
    assert ran.status == 1 and "mode 0644" in ran.err, ran


def test_help_has_examples(programs: Programs) -> None:
    ran = programs.run("verbena", "certs", "--help")
    assert ran.status == 0 and "verbena certs --dir certs --host" in ran.out, ran
