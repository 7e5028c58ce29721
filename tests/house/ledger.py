"""The ledger: lines of jmars/ by capability, each with a ceiling.

A change that needs more lines than a ceiling allows raises the ceiling here and says why in docs/decisions/. A module
belongs to the first capability with a pattern that fits the module's path below jmars/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.house.source import PACKAGE, modules

# most lines, capability, and patterns of paths
TABLE = """
  1420  random
            tensor/ops/*random*
   905  parts: only what results need is read
            tensor/parts.py optimize/parts.py optimize/sources.py
  3126  files
            tensor/files.py tensor/zarr_arrays.py tensor/whole_zarr.py tensor/ops/npy.py tensor/atomic_file.py
            tensor/remote_files.py
  1904  formats of images, telescopes, weather and tables
            tensor/formats/*
 16267  NumPy functions
            tensor/ops/*
  2055  masked arrays
            tensor/ma/*
  1582  foreign chunks and duck arrays
            tensor/chunk_types/* tensor/array_api.py array_api.py tensor/numba_values.py
  1030  spawn
            tensor/spawn.py remote.py
  1040  filters and measurements of images
            tensor/ndimage/*
   253  batches for training
            tensor/batches.py
  8287  tensor core
            tensor/*
  1900  machine code by LLVM text
            kernels/native_pipeline.py kernels/compile.py kernels/expression.py kernels/routines.py
            kernels/blocks.py
  3650  GPU
            devices/* memory/device_memory.py kernels/cuda_text.py plan/devices.py processes/gpu*
  3817  kernels, NumPy back end, fusing
            kernels/* native/*
  2490  optimize
            optimize/*
  2700  planner portfolio, drift, replan
            plan/improve.py plan/partition.py plan/initial.py plan/best_plan.py
            plan/c_planners.py plan/revision.py plan/choice.py
  3650  plan core: order, costs, simulation
            plan/*
  2450  what-if, advice, plan views
            client/plans/*
  1910  fail-over of a detached scheduler
            scheduler/journal.py scheduler/resuming.py worker/remote_scheduler.py deploy/scheduler_process.py
            deploy/scheduler_subprocess.py
   920  sharded schedulers
            scheduler/shards.py
   520  why
            scheduler/why.py
  4030  several hosts: head, roster, scheduling over hosts
            scheduler/host*.py scheduler/membership.py scheduler/elastic.py
            deploy/hosts_head.py deploy/hosts_host.py deploy/roster.py
            deploy/elastic_hosts.py deploy/member.py deploy/member_process.py
            deploy/host_facts.py
  4905  scheduler core
            scheduler/*
   700  several hosts: UCX
            transport/ucx.py
  2940  several hosts: bytes over TLS
            transport/* worker/chunk_exchange.py processes/carrier.py
  2050  several hosts: control link, identity, tickets
            actors/tls*.py actors/lasting.py deploy/ca.py deploy/tickets.py deploy/beats.py
  2090  several hosts: launching
            deploy/launch*.py deploy/batch.py deploy/host_launches.py deploy/host_processes.py
            deploy/far_host.py client/host_clusters.py
   935  engines: hosts inside workers
            deploy/inside*.py engines/guests.py
  5055  engines: tasks on Dask and Ray
            engines/* deploy/engine_head.py client/engine_clusters.py
   694  output of functions
            processes/output.py dispatch/output_reports.py client/job_output.py
  8715  host: memory, dispatch, processes
            memory/* dispatch/* processes/* worker/* storage/*
  4200  REST gateway and client
            web/* client/session.py
   400  dependency counting
            flow.py
  4450  annex: what only the five documents ask for
            annex/*
  1150  notebook: side bar server
            notebook/server/*
  3860  notebook: cell and magic
            notebook/cell*.py notebook/magic.py notebook/flags.py notebook/lexer.py
            notebook/namespace.py notebook/numpy_names.py notebook/running_cell.py
            notebook/kernel_access.py notebook/user_arrays.py notebook/__init__.py
  4300  notebook: view
            notebook/*
  1500  reports, replay, pictures
            reports/*
  4065  local deploy and actors
            deploy/* actors/*
  1232  xarray
            client/xarray*.py
  4650  client core
            client/*
  2309  model and settings
            *
"""


def _rows() -> Iterator[tuple[str, int, list[str]]]:
    for row in re.split(r"\n(?=\s*\d)", TABLE.strip("\n")):
        head, *patterns = row.split("\n")
        most, name = head.split(maxsplit=1)
        yield name, int(most), " ".join(patterns).split()


LEDGER = list(_rows())


def capability(path: str) -> str:
    """The capability of a module by its path below jmars/."""
    for name, _, patterns in LEDGER:
        if any(fnmatch(path, pattern) for pattern in patterns):
            return name
    raise AssertionError(path)


def lines() -> dict[str, int]:
    """Lines by capability."""
    found = dict.fromkeys((name for name, _, _ in LEDGER), 0)
    for module in modules():
        found[capability(str(module.path.relative_to(PACKAGE)))] += len(module.text.splitlines())
    return found


def failures() -> list[str]:
    """Capabilities above their ceilings, a line each."""
    most = {name: ceiling for name, ceiling, _ in LEDGER}
    return [f"{name}: {number} lines, at most {most[name]}" for name, number in lines().items() if number > most[name]]
