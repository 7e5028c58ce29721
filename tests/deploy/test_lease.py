"""Lease: an unused cluster ends in time, and every use begins it anew."""

import math

from jmars.deploy.clients import Lease


def test_the_lease_begins_when_the_last_client_and_job_are_gone():
    lease = Lease(10.0, now=0.0)
    assert lease.update(clients=1, active=False, now=1.0) == math.inf
    assert lease.update(clients=0, active=True, now=2.0) == math.inf
    assert lease.update(clients=0, active=False, now=50.0) == 60.0
    assert lease.update(clients=0, active=False, now=55.0) == 60.0  # looked at again, not used
    assert not lease.is_over(59.9)
    assert lease.is_over(60.0)


def test_a_cluster_that_nobody_ever_used_ends_too():
    assert Lease(10.0, now=5.0).update(clients=0, active=False, now=6.0) == 15.0


def test_an_infinite_lease_never_ends():
    lease = Lease(math.inf, now=0.0)
    assert lease.update(clients=0, active=False, now=1.0) == math.inf
    assert not lease.is_over(1e9)
