"""Facts of hosts: what must agree, and the environment in which different CPUs compute the same bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from jmars.deploy.host_facts import HostFacts, check_versions, own_facts, same_bits
from jmars.errors import ClusterStartError

AVX2 = ("AVX", "AVX2", "FMA3", "SSE42")
AVX512 = (*AVX2, "AVX512F", "AVX512CD", "AVX512VL", "AVX512BW", "AVX512DQ")
NEW = HostFacts(
    jmars="0.1.0",
    numpy="2.4.6",
    python="3.11",
    byte_order="little",
    machine="x86_64",
    baseline=("X86_V2",),
    dispatched=("X86_V3", "X86_V4"),
    features=AVX512,
    blas="openblas 0.3.31",
    kernels="SkylakeX",
    libc="glibc 2.36",
)
OLD = replace(NEW, dispatched=("X86_V3",), features=AVX2, kernels="Haswell")
ANCIENT = replace(NEW, dispatched=(), features=("SSE42",), kernels="Nehalem", libc="glibc 2.31")

# Facts of a process, and digests of functions whose bits depend on the CPU's code.
PROGRAM = """
import hashlib, json, math, numpy as np
from jmars.deploy.host_facts import own_facts
x = np.random.default_rng(0).random((301, 301)) * 100
def bits(a):
    return hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest()
values = [bits(x @ x), bits(np.sin(x)), bits(np.exp(x)), bits([math.atan(v) for v in x.ravel()])]
print(json.dumps([own_facts().to_wire(), values]))
"""


@pytest.mark.parametrize(
    "what, other",
    [("jmars", "0.2.0"), ("numpy", "2.1.0"), ("python", "3.12"), ("byte_order", "big"), ("machine", "s390x")],
)
def test_hosts_that_cannot_work_together_are_refused_by_name(what, other):
    check_versions({"head": NEW, "a": OLD})
    with pytest.raises(ClusterStartError) as caught:
        check_versions({"head": NEW, "a": NEW, "b": replace(NEW, **{what: other})})
    text = str(caught.value)
    assert "host b has" in text and other in text and getattr(NEW, what) in text


def test_equal_hosts_need_nothing():
    answer = same_bits({"head": NEW, "a": NEW})
    assert answer.environment == {"head": {}, "a": {}}
    assert answer.notes == ()


def test_the_newer_cpu_gives_up_what_the_older_one_lacks():
    answer = same_bits({"head": OLD, "a": NEW})
    assert answer.environment == {
        "head": {},
        "a": {"NPY_DISABLE_CPU_FEATURES": "X86_V4", "OPENBLAS_CORETYPE": "Haswell"},
    }
    assert [note.split()[0] for note in answer.notes] == ["NumPy", "OpenBLAS"]
    assert all(" a " in note for note in answer.notes)


def test_all_that_is_common_is_kept():
    """Kernels are chosen by common features, not as the least of those that the hosts use."""
    zen = replace(NEW, kernels="Zen")
    assert same_bits({"head": zen, "a": NEW}).environment == {"head": {"OPENBLAS_CORETYPE": "SkylakeX"}, "a": {}}
    icelake = replace(NEW, dispatched=("X86_V3", "X86_V4", "AVX512_ICL"))
    assert same_bits({"head": icelake, "a": NEW}).environment["head"] == {"NPY_DISABLE_CPU_FEATURES": "AVX512_ICL"}


def test_without_fused_multiply_add_the_c_library_never_uses_it():
    answer = same_bits({"head": NEW, "a": ANCIENT, "b": replace(OLD, libc="glibc 2.31")})
    tunables = {name: environment.get("GLIBC_TUNABLES") for name, environment in answer.environment.items()}
    assert tunables == {
        "head": "glibc.cpu.hwcaps=-AVX2,-FMA",
        "a": None,
        "b": "glibc.cpu.hwcaps=-AVX2_Usable,-FMA_Usable",
    }
    assert {environment.get("OPENBLAS_CORETYPE") for environment in answer.environment.values()} == {None, "Nehalem"}
    assert any("glibc 2.31 and glibc 2.36" in note for note in answer.notes)


def test_what_a_user_had_switched_off_stays_off():
    own = replace(NEW, disabled="AVX512_ICL, AVX512_SPR", tunables="glibc.malloc.check=0")
    environment = same_bits({"head": own, "a": ANCIENT}).environment["head"]
    assert environment["NPY_DISABLE_CPU_FEATURES"] == "AVX512_ICL AVX512_SPR X86_V3 X86_V4"
    assert environment["GLIBC_TUNABLES"] == "glibc.malloc.check=0:glibc.cpu.hwcaps=-AVX2,-FMA"


@pytest.mark.parametrize("what, other", [("baseline", ("X86_V2", "X86_V3")), ("blas", "mkl 2025.1"), ("blas", "")])
def test_builds_that_no_environment_makes_equal_are_refused(what, other):
    with pytest.raises(ClusterStartError, match="same_bits=False"):
        same_bits({"head": NEW, "a": replace(NEW, **{what: other})})


def test_kernels_of_other_processors():
    arm = replace(NEW, machine="aarch64", dispatched=(), features=("ASIMD",), kernels="NEOVERSEN1")
    answer = same_bits({"head": arm, "a": replace(arm, kernels="NEOVERSEV1")})
    assert {environment["OPENBLAS_CORETYPE"] for environment in answer.environment.values()} == {"ARMV8"}
    power = replace(arm, machine="ppc64le", kernels="POWER9")
    with pytest.raises(ClusterStartError, match="POWER10, POWER9"):
        same_bits({"head": power, "a": replace(power, kernels="POWER10")})


def test_facts_cross_the_wire():
    here = own_facts()
    assert HostFacts.of_wire(json.loads(json.dumps(here.to_wire()))) == here
    for broken in ({}, {**here.to_wire(), "features": "AVX"}, {**here.to_wire(), "numpy": 2}):
        with pytest.raises(ClusterStartError, match="no usable facts"):
            HostFacts.of_wire(broken)


def _process(**environment):
    command = [sys.executable, "-c", PROGRAM]
    answer = subprocess.run(
        command, env={**os.environ, **environment}, check=True, capture_output=True, text=True, timeout=60
    )
    facts, values = json.loads(answer.stdout)
    return HostFacts.of_wire(facts), values


def test_the_environment_makes_real_processes_agree():
    """This machine's CPU against a lesser one of which the processes are told; the second round needs nothing more."""
    here, values = _process()
    if not {"AVX2", "FMA3"} <= set(here.features) or not here.blas.startswith("openblas"):
        pytest.skip("needs an x86-64 CPU with AVX2 and a NumPy with OpenBLAS")
    lesser = replace(
        here, dispatched=(), features=tuple(set(here.features) & set(here.baseline) | {"SSE42"}), kernels="Nehalem"
    )
    environment = same_bits({"lesser": lesser, "here": here}).environment["here"]
    again, values_again = _process(**environment)
    assert again.dispatched == () and again.kernels == "Nehalem"
    assert same_bits({"lesser": lesser, "here": again}).environment == {"lesser": {}, "here": {}}
    assert values_again != values  # so that the environment does something: on this CPU the bits differ
