"""Facts of a host on which results depend: versions, byte order, CPU features that NumPy uses, OpenBLAS's kernels.

`own_facts` reads them, `check_versions` refuses hosts that cannot work together, and `same_bits` chooses environments
in which all hosts compute the same bits: NumPy, OpenBLAS and glibc choose their code by CPU, and `sin` or `matmul` with
AVX-512 may end in other bits than with AVX2. Pure but for `own_facts`.
Source: https://numpy.org/doc/stable/reference/simd/build-options.html; OpenBLAS, driver/others/dynamic.c.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import msgspec
import threadpoolctl
from msgspec import Struct
from numpy._core import _multiarray_umath as numpy_core  # type: ignore[attr-defined]

from jmars.errors import ClusterStartError
from jmars.model.versions import versions

# OpenBLAS's kernels that any CPU with these features can run, the fastest first.
_X86_KERNELS = (
    ("SkylakeX", {"AVX512F", "AVX512CD", "AVX512VL", "AVX512BW", "AVX512DQ"}),
    ("Haswell", {"AVX2", "FMA3"}),
    ("Sandybridge", {"AVX"}),
    ("Nehalem", {"SSE42"}),
)
_ARM_KERNEL = "ARMV8"
_FUSED = {"FMA3", "AVX2", "FMA4"}  # features by which glibc chooses its sin, exp, pow
_MUST_AGREE = {
    "jmars": "install the same version of jmars on all hosts",
    "numpy": "install the same version of NumPy on all hosts",
    "python": "use the same minor version of Python on all hosts: pickled functions need it",
    "byte_order": "use hosts of one byte order",
    "machine": "use hosts of one CPU architecture",
}


class HostFacts(Struct, frozen=True):
    """Facts of one host, as texts and tuples of texts.

    Attributes
    ----------
    python
        Major and minor version.
    machine
        CPU architecture, as `uname -m` says it.
    baseline
        CPU features that NumPy was built for; they cannot be switched off.
    dispatched
        CPU features beyond the baseline that NumPy was built for, has found and uses.
    features
        All CPU features that NumPy has found and that are not switched off.
    blas
        Library and version, such as "openblas 0.3.31"; "" if NumPy's is not known.
    kernels
        OpenBLAS's core type, such as "Haswell"; "" for another library.
    libc
        C library and version.
    disabled
        NPY_DISABLE_CPU_FEATURES of this process.
    tunables
        GLIBC_TUNABLES of this process.
    """

    jmars: str
    numpy: str
    python: str
    byte_order: str
    machine: str
    baseline: tuple[str, ...]
    dispatched: tuple[str, ...]
    features: tuple[str, ...]
    blas: str
    kernels: str
    libc: str
    disabled: str = ""
    tunables: str = ""

    def to_wire(self) -> dict[str, Any]:
        """The facts as a dict that JSON and msgpack can write."""
        return msgspec.structs.asdict(self)

    @classmethod
    def of_wire(cls, told: Mapping[str, Any]) -> Self:
        """The facts that another host has sent.

        Raises
        ------
        ClusterStartError
            If a fact is missing or has another type: the sender has another version of jmars.
        """
        try:
            return msgspec.convert(told, cls)
        except msgspec.ValidationError as error:
            raise ClusterStartError(
                f"a host told no usable facts of itself ({error}); {_MUST_AGREE['jmars']}"
            ) from error


@dataclass(frozen=True)
class SameBits:
    """How hosts compute the same bits.

    Attributes
    ----------
    environment
        By host: variables that its processes must have before they import NumPy; empty for a host that is as it should.
    notes
        Sentences for users: what was switched off, and differences that stay.
    """

    environment: dict[str, dict[str, str]]
    notes: tuple[str, ...]


def own_facts() -> HostFacts:
    """Facts of this process's host; loads NumPy."""
    found: Mapping[str, bool] = numpy_core.__cpu_features__
    blas, kernels = _own_blas()
    return HostFacts(
        **versions(),
        byte_order=sys.byteorder,
        machine=platform.machine(),
        baseline=tuple(numpy_core.__cpu_baseline__),
        dispatched=tuple(name for name in numpy_core.__cpu_dispatch__ if found.get(name)),
        features=tuple(sorted(name for name, there in found.items() if there)),
        blas=blas,
        kernels=kernels,
        libc=" ".join(platform.libc_ver()),
        disabled=os.environ.get("NPY_DISABLE_CPU_FEATURES", ""),
        tunables=os.environ.get("GLIBC_TUNABLES", ""),
    )


def check_versions(facts: Mapping[str, HostFacts]) -> None:
    """Refuse hosts that cannot work together.

    Parameters
    ----------
    facts
        By name of the host; the first one is the head.

    Raises
    ------
    ClusterStartError
        If versions of jmars, NumPy or Python, byte order or CPU architecture differ; the text names host and values.
    """
    head = next(iter(facts))
    for name, other in facts.items():
        for what, remedy in _MUST_AGREE.items():
            here, there = getattr(facts[head], what), getattr(other, what)
            if here != there:
                raise ClusterStartError(
                    f"host {name} has {what.replace('_', ' ')} {there}, and {head} has {here}: a result would depend "
                    f"on the host that computes it; {remedy}"
                )


def same_bits(facts: Mapping[str, HostFacts]) -> SameBits:
    """The environments, by host, in which all hosts compute the same bits.

    Parameters
    ----------
    facts
        By name of the host; `check_versions` has passed.

    Raises
    ------
    ClusterStartError
        If no environment does it: NumPy was built for other CPUs or with another BLAS on one of the hosts.
    """
    environment: dict[str, dict[str, str]] = {name: {} for name in facts}
    notes: list[str] = []
    _check_builds(facts)
    common = set.intersection(*(set(host.dispatched) for host in facts.values()))
    for name, host in facts.items():
        if beyond := [feature for feature in host.dispatched if feature not in common]:
            environment[name]["NPY_DISABLE_CPU_FEATURES"] = " ".join(
                [*host.disabled.replace(",", " ").split(), *beyond]
            )
            notes.append(f"NumPy on {name} does not use {', '.join(beyond)}, which not every host has")
    if len({host.kernels for host in facts.values()}) > 1:
        kernels = _common_kernels(facts.values())
        for name, host in facts.items():
            if host.kernels != kernels:
                environment[name]["OPENBLAS_CORETYPE"] = kernels
                notes.append(f"OpenBLAS on {name} uses its kernels for {kernels} in place of {host.kernels}")
    for name, tunables, beyond in _without_fused(facts):
        environment[name]["GLIBC_TUNABLES"] = tunables
        notes.append(f"the C library on {name} does not use {', '.join(beyond)}, which not every host has")
    if len(libraries := sorted({host.libc for host in facts.values()})) > 1:
        notes.append(f"hosts have {' and '.join(libraries)}: the last bit of functions such as tan may differ")
    return SameBits(environment, tuple(notes))


def _own_blas() -> tuple[str, str]:
    """Library with version, and core type, of NumPy's BLAS."""
    found = [one for one in threadpoolctl.threadpool_info() if one["user_api"] == "blas"]
    ours = [one for one in found if f"{os.sep}numpy" in one["filepath"]] or found
    if not ours:
        return "", ""
    return f"{ours[0]['internal_api']} {ours[0]['version']}", ours[0].get("architecture") or ""


def _check_builds(facts: Mapping[str, HostFacts]) -> None:
    head, first = next(iter(facts.items()))
    for name, host in facts.items():
        for what, here, there in (
            ("built for CPUs with", ", ".join(first.baseline), ", ".join(host.baseline)),
            ("built with", first.blas or "an unknown BLAS", host.blas or "an unknown BLAS"),
        ):
            if here != there:
                raise ClusterStartError(
                    f"NumPy on {name} is {what} {there}, and on {head} {what} {here}: they may compute other bits; "
                    "install the same wheels on all hosts, or start with same_bits=False"
                )


def _common_kernels(hosts: Iterable[HostFacts]) -> str:
    """OpenBLAS's kernels that all hosts can run."""
    machine = next(iter(hosts)).machine
    if machine == "x86_64":
        common = set.intersection(*(set(host.features) for host in hosts))
        for kernels, needs in _X86_KERNELS:
            if needs <= common:
                return kernels
        return "Prescott"
    if machine in ("aarch64", "arm64"):
        return _ARM_KERNEL
    found = sorted({host.kernels for host in hosts})
    raise ClusterStartError(
        f"OpenBLAS uses different kernels on these hosts ({', '.join(found)}), and no kernels for {machine} are known "
        "that all can run; use hosts with the same CPU, or start with same_bits=False"
    )


def _without_fused(facts: Mapping[str, HostFacts]) -> Iterator[tuple[str, str, list[str]]]:
    """(host, GLIBC_TUNABLES, features) of hosts whose C library must not use features that another host lacks."""
    common = set.intersection(*(set(host.features) for host in facts.values()))
    for name, host in facts.items():
        found = re.fullmatch(r"glibc (\d+)\.(\d+)", host.libc)
        beyond = sorted(_FUSED & set(host.features) - common)
        if found and beyond and host.machine == "x86_64":
            suffix = "" if (int(found[1]), int(found[2])) >= (2, 33) else "_Usable"  # names changed in that version
            switched_off = ",".join(f"-{'FMA' if one == 'FMA3' else one}{suffix}" for one in beyond)
            tunable = f"glibc.cpu.hwcaps={switched_off}"
            if tunable not in host.tunables:
                yield name, f"{host.tunables}:{tunable}".lstrip(":"), beyond
