# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests with an etcd that has TLS."""

import datetime
import ipaddress
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAY = datetime.timedelta(days=1)


class Pair(NamedTuple):
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


def name_of(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """An authority of its own, whose files lie in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = self._builder(name, self._key.public_key(), DAY).add_extension(constraints, critical=True)
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, host: str, *, expires: datetime.timedelta = DAY) -> Pair:
        """Return a certificate for the host that servers and clients may use."""
        key = ec.generate_private_key(ec.SECP256R1())
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(name, key.public_key(), expires)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        )
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        pair.key.touch(mode=0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pair

    def _builder(
        self, name: str, key: ec.EllipticCurvePublicKey, expires: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.utcnow()
        return (
            x509.CertificateBuilder()
            .subject_name(name_of(name))
            .issuer_name(name_of(self._name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * DAY)
            .not_valid_after(now + expires)
        )
