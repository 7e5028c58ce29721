"""The authority signs for hosts of its cluster, by what it was told and not by what a request asks."""

import datetime
import re

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from jmars.actors.tls import Credentials, Identity
from jmars.deploy.ca import CertificateAuthority, new_request
from jmars.errors import AuthenticationError


def parsed(pem):
    return x509.load_pem_x509_certificate(pem)


def names(certificate):
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.DNSName
    )


def request(key, asked="head.5f3a9c01.jmars"):
    wanted = x509.SubjectAlternativeName([x509.DNSName(asked)])
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).add_extension(wanted, critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_certificate_is_for_one_host_and_incarnation():
    authority = CertificateAuthority("5f3a9c01")
    certificate = parsed(authority.issue("host-3", incarnation=2).certificate)
    assert names(certificate) == ["host-3.5f3a9c01.jmars", "incarnation-2.host-3.5f3a9c01.jmars"]
    assert names(parsed(authority.issue("head").certificate))[0] == "head.5f3a9c01.jmars"
    certificate.verify_directly_issued_by(parsed(authority.certificate))


def test_a_certificate_holds_from_yesterday_for_a_year():
    now = datetime.datetime(2026, 5, 9, 12, tzinfo=datetime.UTC)
    authority = CertificateAuthority("5f3a9c01", now)
    for pem in (authority.certificate, authority.issue("head").certificate):
        assert parsed(pem).not_valid_before_utc == now - datetime.timedelta(days=1)
        assert parsed(pem).not_valid_after_utc == now + datetime.timedelta(days=365)


def test_what_a_request_asks_is_ignored():
    asked = request(ec.generate_private_key(ec.SECP256R1()), "head.5f3a9c01.jmars")
    found = CertificateAuthority("5f3a9c01").sign(asked, Identity(4, 1))
    assert names(parsed(found))[0] == "host-4.5f3a9c01.jmars"
    assert not parsed(found).extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_false_requests_are_refused():
    authority = CertificateAuthority("5f3a9c01")
    _, good = new_request()
    der = x509.load_pem_x509_csr(good).public_bytes(serialization.Encoding.DER)
    broken = x509.load_der_x509_csr(der[:-4] + b"\0\1\2\3").public_bytes(serialization.Encoding.PEM)
    other = request(ec.generate_private_key(ec.SECP384R1()))
    cases = [(b"", "refused"), (b"x" * 9000, "9000 bytes"), (other, "not on the curve"), (broken, "refused")]
    for asked, why in cases:
        with pytest.raises(AuthenticationError, match=why):
            authority.sign(asked, Identity(1, 1))


@pytest.mark.parametrize("cluster", ["", "a.b", "a b", "x" * 41, "ü"])
def test_an_id_that_cannot_stand_in_a_name_is_an_error(cluster):
    with pytest.raises(ValueError, match="no name of a host"):
        CertificateAuthority(cluster)


@pytest.mark.parametrize("name", ["", "host-0", "host-x", "head.5f3a9c01.jmars", "5f3a9c01"])
def test_other_names_than_those_of_hosts_are_errors(name):
    with pytest.raises(ValueError, match="no name of a host"):
        CertificateAuthority("5f3a9c01").issue(name)


def test_no_key_is_shown():
    authority = CertificateAuthority("5f3a9c01")
    credentials = authority.issue("head")
    assert isinstance(credentials, Credentials) and b"PRIVATE KEY" in credentials.key
    shown = repr(credentials) + str(credentials) + repr(authority) + repr(vars(authority))
    assert not re.search(r"BEGIN|PRIVATE", shown.replace(repr(authority.certificate), ""))
