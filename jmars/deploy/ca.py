"""The certificate authority of one cluster: it lives in the head's memory and ends with it.

Keys are on the curve P-256; certificates are valid from a day back, since clocks of hosts differ, for a year. The
authority's key is never written or sent. Source: RFC 5280.
"""

from __future__ import annotations

import datetime
import importlib
import re
from typing import TYPE_CHECKING

from jmars.actors.tls import HEAD, Credentials, Identity, names_of
from jmars.errors import AuthenticationError, ClusterStartError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

BACK, ON = datetime.timedelta(days=1), datetime.timedelta(days=365)
REQUEST_BYTES = 8192  # bytes of a request


class CertificateAuthority:
    """Makes the certificates of a cluster's hosts.

    Parameters
    ----------
    cluster
        Id of the cluster: letters, digits and "-".
    now
        The time, for tests.

    Attributes
    ----------
    certificate
        Its certificate as PEM text; hosts trust what it signs, and nothing else.

    Raises
    ------
    ClusterStartError
        If the package cryptography is not installed.
    """

    def __init__(self, cluster: str, now: datetime.datetime | None = None) -> None:
        _check_installed()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding

        names_of(cluster, Identity(HEAD, 1))  # raises for ids that cannot stand in a name
        self.cluster = cluster
        self._now = now
        self._key = _new_key()
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"{cluster}.jmars")])
        public = self._key.public_key()
        usage = dict.fromkeys(_USAGE, False) | {"key_cert_sign": True, "crl_sign": True}
        made = (
            self._begun(self._name, public)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
        )
        self.certificate: bytes = self._signed(made).public_bytes(Encoding.PEM)

    def issue(self, name: str, incarnation: int = 1) -> Credentials:
        """A new key and its certificate for a host that gets them without a wire: "head", or "host-3".

        Raises
        ------
        ValueError
            If it is no name of a host.
        """
        found = re.fullmatch(r"head|host-([1-9][0-9]*)", name)
        if found is None:
            raise ValueError(f"{name!r} is no name of a host; say head, or host-1")
        key, request = new_request()
        identity = Identity(int(found[1] or HEAD), incarnation)
        return Credentials(key, self.sign(request, identity), self.certificate)

    def sign(self, request: bytes, identity: Identity) -> bytes:
        """The certificate, as PEM text, of a host whose own key signed `request`; all else that it asks is ignored.

        Raises
        ------
        AuthenticationError
            If it is no request, for a key of another kind, or not signed by that key.
        """
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding
        from cryptography.x509.oid import ExtendedKeyUsageOID

        public = _key_of(request)
        usage = dict.fromkeys(_USAGE, False) | {"digital_signature": True}
        alternatives = [x509.DNSName(name) for name in names_of(self.cluster, identity)]
        purposes = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, alternatives[0].value)])
        made = (
            self._begun(subject, public)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.KeyUsage(**usage), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        )
        return self._signed(made).public_bytes(Encoding.PEM)

    # -- own
    def _begun(self, subject: x509.Name, public: EllipticCurvePublicKey) -> x509.CertificateBuilder:
        from cryptography import x509

        now = self._now or datetime.datetime.now(datetime.UTC)
        ours = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - BACK)
            .not_valid_after(now + ON)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(ours, critical=False)
        )

    def _signed(self, made: x509.CertificateBuilder) -> x509.Certificate:
        from cryptography.hazmat.primitives.hashes import SHA256

        return made.sign(self._key, SHA256())


def new_request() -> tuple[bytes, bytes]:
    """A new private key, and the request by which an authority makes a certificate for it; both as PEM text.

    Raises
    ------
    ClusterStartError
        If the package cryptography is not installed.
    """
    _check_installed()
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = _new_key()
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, request.public_bytes(Encoding.PEM)


def check_request(request: bytes) -> None:
    """Raise AuthenticationError for what `CertificateAuthority.sign` refuses."""
    _key_of(request)


def _key_of(request: bytes) -> EllipticCurvePublicKey:
    """The public key that signed a request."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec

    try:
        if len(request) > REQUEST_BYTES:
            raise ValueError(f"it has {len(request)} bytes")
        found = x509.load_pem_x509_csr(request)
        public = found.public_key()
        if isinstance(public, ec.EllipticCurvePublicKey) and isinstance(public.curve, ec.SECP256R1):
            if found.is_signature_valid:
                return public
            raise ValueError("its signature is false")
        raise ValueError("its key is not on the curve P-256")
    except (ValueError, UnsupportedAlgorithm) as error:
        raise AuthenticationError(f"a request for a certificate is refused: {error}; make a new one") from error


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _check_installed() -> None:
    """Raise ClusterStartError where the package is missing, which only clusters of several hosts need."""
    try:
        importlib.import_module("cryptography.x509")
    except ImportError as error:
        raise ClusterStartError(
            f"hosts prove themselves by certificates, and the package cryptography cannot be imported ({error}); "
            "install it on every host with: pip install 'jmars[remote]'"
        ) from error


_USAGE = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)
