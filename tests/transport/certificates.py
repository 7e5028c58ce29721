"""Identities of hosts for tests, with certificates of an authority made for the test run."""

from __future__ import annotations

from functools import cache

from jmars.actors.tls import Identity
from jmars.deploy.ca import CertificateAuthority, new_request
from jmars.transport.tls_sockets import HostIdentity

CLUSTER = "test-cluster"


@cache
def authority(ca, cluster):
    """The authority of a cluster; another `ca` is another authority of the same names."""
    return CertificateAuthority(cluster)


@cache
def identity(host, incarnation=1, ca="ours", named=None, cluster=CLUSTER):
    """A host that says to be `(host, incarnation)`, with a certificate for `named` if it is another one."""
    signs = authority(ca, cluster)
    key, request = new_request()
    certificate = signs.sign(request, Identity(*(named or (host, incarnation))))
    return HostIdentity(cluster, host, incarnation, key, certificate, signs.certificate)
