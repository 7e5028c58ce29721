"""UCX is chosen where both hosts have the device and a probe finds it faster; the reason tells why, either way."""

from __future__ import annotations

import pytest

from jmars.transport.ucx import TLS, UCX, by_devices, by_rates, devices_of, pack_devices, unpack_devices


@pytest.mark.parametrize(
    "transports, devices",
    [
        (["tcp", "self", "posix", "sysv", "cma"], set()),
        (["tcp", "rc_verbs", "ud_verbs"], {"RDMA"}),
        (["dc_mlx5"], {"RDMA"}),
        (["cuda_copy", "cuda_ipc", "tcp"], {"CUDA"}),
        (["rc_mlx5", "gdr_copy"], {"RDMA", "CUDA"}),
        (["rcache"], set()),
    ],
)
def test_devices_by_names_of_transports(transports, devices):
    assert devices_of(transports) == devices
    assert unpack_devices(pack_devices(devices)) == devices


@pytest.mark.parametrize(
    "reader, source, transport, why",
    [
        ({"RDMA"}, {"RDMA", "CUDA"}, UCX, "both hosts have RDMA"),
        ({"CUDA", "RDMA"}, {"RDMA", "CUDA"}, UCX, "both hosts have CUDA and RDMA"),
        ({"RDMA"}, set(), TLS, "the host that sends has no RDMA device"),
        (set(), {"RDMA"}, TLS, "the host that reads has no RDMA device"),
        ({"RDMA"}, {"CUDA"}, TLS, "one host has RDMA, the other CUDA"),
    ],
)
def test_both_hosts_need_the_same_device(reader, source, transport, why):
    found = by_devices(reader, source, always=False)
    assert found.transport == transport and why in found.why
    assert by_devices(reader, source, always=True).transport == UCX


def test_a_probe_must_be_a_fifth_faster():
    assert by_rates(1.2e9, 1e9, "").transport == UCX
    found = by_rates(1.19e9, 1e9, "both hosts have RDMA")
    assert found == (TLS, "both hosts have RDMA; a probe took 1.19 GB/s by UCX and 1.00 by TLS")
