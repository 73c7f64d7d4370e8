"""TLS 1.3 with both ends authenticated, as a stream (docs/security.md). Needs pyOpenSSL: Python's own ssl module does not give the exporter
of a session, by which the set-up's proof is bound to it."""

import contextlib
import ipaddress
import os
import socket
import threading
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from OpenSSL import SSL, crypto

ALPN = b"verbena/1"
EXPORTER_LABEL = b"EXPORTER-verbena-channel"
RECORD_MAX = 16 << 10


@dataclass(frozen=True)
class Tls:
    """Whom the client trusts and who it is: without files this user's identity, which a C++ program of the user has made."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def context(self) -> SSL.Context:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_min_proto_version(SSL.TLS1_3_VERSION)
        context.set_alpn_protos([ALPN])
        if self.ca:
            context.load_verify_locations(self.ca)
            context.use_certificate_chain_file(self.cert)
            context.use_privatekey_file(self.key)
            context.set_verify(SSL.VERIFY_PEER, lambda _connection, _certificate, _error, _depth, good: bool(good))
            return context
        pem = identity_file().read_bytes()
        own = crypto.load_certificate(crypto.FILETYPE_PEM, pem)
        context.use_certificate(own)
        context.use_privatekey(crypto.load_privatekey(crypto.FILETYPE_PEM, pem))
        # The same user's key, whatever else the certificate says.
        wanted = _public_key(own)
        context.set_verify(
            SSL.VERIFY_PEER, lambda _connection, shown, _error, _depth, _good: _public_key(shown) == wanted
        )
        return context


def identity_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "verbena" / "identity.pem"


def _public_key(certificate: crypto.X509) -> bytes:
    key = certificate.to_cryptography().public_key()
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def names_host(certificate: x509.Certificate, host: str) -> bool:
    """Whether the certificate is for this name or address."""
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


class TlsStream:
    """A socket in TLS. One thread may read while another sends."""

    def __init__(self, plain: socket.socket, host: str, tls: Tls) -> None:
        self._socket = plain
        self._ssl = SSL.Connection(tls.context(), None)
        self._lock = threading.Lock()  # of the session: its calls do no I/O
        self._sending = threading.Lock()  # records leave in the order in which they were made
        self._plain = bytearray()
        self._ssl.set_connect_state()
        if not _is_address(host):
            self._ssl.set_tlsext_host_name(host.encode("idna"))
        self._shake_hands()
        peer = self._ssl.get_peer_certificate()
        if tls.ca and not names_host(peer.to_cryptography(), host):
            raise ConnectionError(f"the server's certificate is not for {host}")
        if self._ssl.get_alpn_proto_negotiated() != ALPN:
            raise ConnectionError("the server does not speak this protocol")

    def exporter_key(self) -> bytes:
        return self._ssl.export_keying_material(EXPORTER_LABEL, 32)

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        with self._sending:
            for at in range(0, len(view), RECORD_MAX):
                with self._lock:
                    self._ssl.send(bytes(view[at : at + RECORD_MAX]))
                    records = self._take()
                self._socket.sendall(records)

    def read(self, size: int) -> bytes:
        """As many bytes, or fewer at the end."""
        while len(self._plain) < size:
            received = self._socket.recv(64 << 10)
            if not received:
                break
            with self._lock:
                self._ssl.bio_write(received)
                self._digest()
        data = bytes(self._plain[:size])
        del self._plain[:size]
        return data

    def _shake_hands(self) -> None:
        while True:
            try:
                self._ssl.do_handshake()
                done = True
            except SSL.WantReadError:
                done = False
            except SSL.Error as error:
                with contextlib.suppress(SSL.Error, OSError):
                    self._socket.sendall(self._take())
                raise ConnectionError(f"TLS with the server failed: {_words(error)}") from None
            self._socket.sendall(self._take())
            if done:
                return
            received = self._socket.recv(64 << 10)
            if not received:
                raise ConnectionError(
                    "the server closed the connection in the middle of TLS: does it take this client?"
                )
            self._ssl.bio_write(received)

    def _take(self) -> bytes:
        """What the session wants to be sent."""
        records = bytearray()
        with contextlib.suppress(SSL.WantReadError):
            while True:
                records += self._ssl.bio_read(64 << 10)
        return bytes(records)

    def _digest(self) -> None:
        try:
            while True:
                self._plain += self._ssl.recv(64 << 10)
        except (SSL.WantReadError, SSL.ZeroReturnError):
            return
        except SSL.Error as error:
            raise ConnectionError(f"TLS with the server failed: {_words(error)}") from None


def _words(error: SSL.Error) -> str:
    reasons = error.args[0] if error.args and isinstance(error.args[0], list) else []
    return "; ".join(reason[-1] for reason in reasons if reason) or "it ended without a reason"
