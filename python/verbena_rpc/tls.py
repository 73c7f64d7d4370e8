# SPDX-License-Identifier: Apache-2.0
"""TLS 1.3 with authentication of both ends, as a stream (docs/security.md).

It needs pyOpenSSL: the proof of a channel's set-up is bound to the TLS session by the session's
exporter (RFC 8446, 7.5), which Python's own ssl module does not provide.
"""

import contextlib
import ipaddress
import os
import socket
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

try:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
    from OpenSSL import SSL, crypto
except ImportError as error:
    raise ImportError(
        f"verbena_rpc.tls needs pyOpenSSL: pip install 'verbena[tls]', or Debian's python3-openssl ({error})"
    ) from error

from .liveness import Receiver, send_all

ALPN = b"verbena/1"
EXPORTER_LABEL = b"EXPORTER-verbena-channel"
RECORD_MAX = 16 << 10
RECORD_HEADER = 5


@dataclass(frozen=True)
class Tls:
    """The client's certificate, and the servers that it trusts.

    With files (PEM): the client trusts a server whose certificate the authority `ca` has signed for
    the host's name; `cert` and `key` are the client's own. Without files: both ends must have this
    user's identity, a file that the user's first C++ program has created.
    """

    ca: str = ""
    cert: str = ""
    key: str = ""

    def context(self) -> SSL.Context:
        """Return a TLS context.

        OSError, SSL.Error, crypto.Error: a file cannot be read. PermissionError: others may read a
        key.
        """
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([ALPN])
        if self.ca:
            context.load_verify_locations(self.ca)
            context.use_certificate_chain_file(self.cert)
            context.use_privatekey(crypto.load_privatekey(crypto.FILETYPE_PEM, read_key_file(Path(self.key))))
            context.set_verify(SSL.VERIFY_PEER, lambda _connection, _certificate, _error, _depth, good: bool(good))
            return context
        pem = read_key_file(identity_file(), roots_mode=0o600)
        own = crypto.load_certificate(crypto.FILETYPE_PEM, pem)
        context.use_certificate(own)
        context.use_privatekey(crypto.load_privatekey(crypto.FILETYPE_PEM, pem))
        # The identity is the key: the rest of the server's certificate is not checked.
        wanted = _public_key(own)
        context.set_verify(
            SSL.VERIFY_PEER, lambda _connection, shown, _error, _depth, _good: _public_key(shown) == wanted
        )
        return context


def read_key_file(path: Path, roots_mode: int = 0o640) -> bytes:
    """Return the contents of a private key's file.

    PermissionError: another user than this one or root owns it, or others may access it. The group
    may read a file of root's, unless `roots_mode` says otherwise.
    """
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (os.geteuid(), 0):
            raise PermissionError(f"the key {path} belongs to user {status.st_uid}, who can read and change it")
        most = roots_mode if status.st_uid == 0 else 0o600
        if status.st_mode & 0o077 & ~most:
            raise PermissionError(
                f"the key {path} has mode {status.st_mode & 0o7777:04o}, so other users may know it: make a new one, "
                f"or run chmod {most:o} on it if none of them has read it"
            )
        return file.read()


def identity_file() -> Path:
    """Return the path of this user's identity: a private key and its certificate.

    It is in the user's configuration folder, or, if there is none, in the first private folder that
    has one, where programs in C++ look too (lib/channel/setup/identity_folder.h).
    """
    environment, user = os.environ, os.geteuid()

    def absolute(name: str) -> str:
        value = environment.get(name, "")
        return value if value.startswith("/") else ""

    home = absolute("HOME")
    configuration = absolute("XDG_CONFIG_HOME") or f"{home}/.config"
    first = Path(configuration, "verbena", "identity.pem")
    cache = absolute("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    shared = [Path(f"{folder}/verbena-{user}") for folder in ("/dev/shm", "/tmp")]
    within = [Path(folder, "verbena") for folder in (absolute("XDG_RUNTIME_DIR"), f"/run/user/{user}") if folder]
    privates = [*within, *shared, *([Path(cache, "verbena")] if cache else [])]
    found = (folder / first.name for folder in privates if _is_private(folder) and os.path.lexists(folder / first.name))
    return first if os.path.lexists(first) else next(found, first)


def _is_private(folder: Path) -> bool:
    """Return whether this is a folder, and no link, that belongs to this user alone."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


def _public_key(certificate: crypto.X509) -> bytes:
    key = certificate.to_cryptography().public_key()
    return bytes(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))


def names_host(certificate: x509.Certificate, host: str) -> bool:
    """Return whether the certificate is for this name or address; wildcards are not supported."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    if _is_address(host):
        return ipaddress.ip_address(host) in names.get_values_for_type(x509.IPAddress)
    return host.lower() in (name.lower() for name in names.get_values_for_type(x509.DNSName))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Records:
    """Follows the borders of TLS records (RFC 8446, 5.1) in the bytes that arrive."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._left = 0  # bytes of the present record that are still to come

    def pass_by(self, received: bytes) -> None:
        at = 0
        while at < len(received):
            if self._left > 0:
                taken = min(self._left, len(received) - at)
                self._left -= taken
            else:
                taken = min(RECORD_HEADER - len(self._head), len(received) - at)
                self._head += received[at : at + taken]
                if len(self._head) == RECORD_HEADER:
                    self._left = int.from_bytes(self._head[3:], "big")
                    self._head.clear()
            at += taken

    def within(self) -> bool:
        """Return whether the beginning of a record has arrived, and not its end."""
        return bool(self._head) or self._left > 0


class TlsStream:
    """A socket in TLS.

    Threads: one thread may read while others send.
    Errors: ConnectionError, with the reason that OpenSSL gives.
    """

    def __init__(self, plain: socket.socket, receiver: Receiver, host: str, tls: Tls) -> None:
        self._socket = plain
        self._receiver = receiver
        self._records = _Records()
        self._ssl = SSL.Connection(tls.context(), None)
        self._lock = threading.Lock()  # protects the session, whose calls do no I/O
        self._sending = threading.Lock()  # sends records in the order in which they were made
        self._plain = bytearray()
        self._ssl.set_connect_state()
        if not _is_address(host):
            self._ssl.set_tlsext_host_name(host.encode("idna"))
        self._handshake()
        peer = self._ssl.get_peer_certificate()
        if tls.ca and not names_host(peer.to_cryptography(), host):
            raise ConnectionError(f"the server's certificate is not for {host}")
        if self._ssl.get_alpn_proto_negotiated() != ALPN:
            raise ConnectionError("the server does not speak this protocol")

    def exporter_key(self) -> bytes:
        """Return 32 bytes that only the two ends of this session know."""
        return bytes(self._ssl.export_keying_material(EXPORTER_LABEL, 32))

    def sendall(self, data: bytes, deadline: float | None) -> None:
        """Send all bytes, encrypted."""
        view = memoryview(data)
        with self._sending:
            for at in range(0, len(view), RECORD_MAX):
                with self._lock:
                    self._ssl.send(bytes(view[at : at + RECORD_MAX]))
                    records = self._take()
                send_all(self._socket, records, deadline)

    def read(self, size: int, in_message: bool) -> bytes:
        """Return `size` bytes, or fewer if the connection ends before."""
        while len(self._plain) < size:
            begun = in_message or bool(self._plain) or self._records.within()
            received = self._receiver.receive(64 << 10, begun)
            if not received:
                break
            self._records.pass_by(received)
            with self._lock:
                self._ssl.bio_write(received)
                self._decrypt_received()
        data = bytes(self._plain[:size])
        del self._plain[:size]
        return data

    def _handshake(self) -> None:
        while True:
            try:
                self._ssl.do_handshake()
                done = True
            except SSL.WantReadError:
                done = False
            except SSL.Error as error:
                with contextlib.suppress(SSL.Error, OSError):
                    send_all(self._socket, self._take(), self._receiver.deadline)
                raise ConnectionError(f"TLS with the server failed: {_words(error)}") from None
            send_all(self._socket, self._take(), self._receiver.deadline)
            if done:
                return
            received = self._receiver.receive(64 << 10, in_message=False)
            self._records.pass_by(received)
            if not received:
                raise ConnectionError(
                    "the server closed the connection during the TLS handshake: does it accept this client?"
                )
            self._ssl.bio_write(received)

    def _take(self) -> bytes:
        """Return the records that the session wants to send; the caller holds the lock."""
        records = bytearray()
        with contextlib.suppress(SSL.WantReadError):
            while True:
                records += self._ssl.bio_read(64 << 10)
        return bytes(records)

    def _decrypt_received(self) -> None:
        """Move the bytes that the session has decrypted to the buffer of read()."""
        try:
            while True:
                self._plain += self._ssl.recv(64 << 10)
        except (SSL.WantReadError, SSL.ZeroReturnError):
            return
        except SSL.Error as error:
            raise ConnectionError(f"TLS with the server failed: {_words(error)}") from None


def _words(error: SSL.Error) -> str:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(reason[-1] for reason in reasons if reason) or "no reason was given"
