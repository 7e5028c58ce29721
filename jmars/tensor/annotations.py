"""Annotations of operands: the worker that must run them, GPU or core, and whether they may be fused.

`annotate` puts an annotation on all operands that are made within its block. Operands with different annotations are
never fused, merged or drawn again within each other.
Source: `expect_worker`, `gpu` and `SchedulingHint.fuseable` of Mars's operands; `dask.annotate`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jmars.model.record import record

__all__ = ["Annotation", "annotate", "annotated", "current_annotation"]


@record
class Annotation:
    """What a user asks for an operand.

    Attributes
    ----------
    worker
        Number or name of the only worker that may run it; None for any.
    gpu
        True: it runs on a GPU. False: on a core. None: the plan chooses.
    fuse
        Whether it may become one operand with others of the same annotation.
    prefer
        Number or name of a worker, or name of a host, where it runs if the cluster has that; None for no wish.
    """

    worker: int | str | None = None
    gpu: bool | None = None
    fuse: bool = True
    prefer: int | str | None = None


_current: ContextVar[Annotation | None] = ContextVar("jmars_annotation", default=None)


def current_annotation() -> Annotation | None:
    """The annotation of operands that are made now; None for none."""
    return _current.get()


@contextmanager
def annotate(
    *,
    worker: int | str | None = None,
    gpu: bool | None = None,
    fuse: bool | None = None,
    prefer: int | str | None = None,
) -> Iterator[None]:
    """Annotates the operands that are made within the block; inner blocks override outer blocks.

    Parameters
    ----------
    worker
        The only worker that may run them: its number, from 0, or its name, as in `Cluster.info()["workers"]`. A name
        that the cluster does not have is an error of the job. On the workers of Dask or Ray it is a wish.
    gpu
        True: they run on a GPU, and the job fails with UnsupportedError where no worker is a GPU. False: they run on
        cores. An operand without a kernel for GPUs is computed by the GPU's process, on a core.
    fuse
        False: each of them stays an operand of its own.
    prefer
        A worker as for `worker`, or a host by its name in `Cluster.info()["hosts"]`, as a wish: a plan puts them there,
        and elsewhere where that worker or host is not here, or is behind.

    Raises
    ------
    TypeError, ValueError
        If an argument has another type, or the number is negative.

    Examples
    --------
    >>> import jmars.tensor as mt
    >>> with annotate(worker=1):
    ...     x = mt.ones(4, chunk_size=2)
    >>> x.data.op.annotation
    Annotation(worker=1, gpu=None, fuse=True, prefer=None)
    """
    for name, place in (("worker", worker), ("prefer", prefer)):
        if isinstance(place, bool) or not isinstance(place, int | str | None):
            raise TypeError(f"{name} is {place!r}; give the number of a worker, or its name")
        if isinstance(place, int) and place < 0:
            raise ValueError(f"{name} is {place}; workers are numbered from 0")
    for name, value in (("gpu", gpu), ("fuse", fuse)):
        if value is not None and not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}; give True or False")
    outer = _current.get() or Annotation()
    inner = Annotation(
        outer.worker if worker is None else worker,
        outer.gpu if gpu is None else gpu,
        outer.fuse if fuse is None else fuse,
        outer.prefer if prefer is None else prefer,
    )
    with annotated(inner if inner != Annotation() else None):
        yield


@contextmanager
def annotated(annotation: Annotation | None) -> Iterator[None]:
    """Gives all operands that are made within the block this annotation, whatever outer blocks say."""
    before = _current.set(annotation)
    try:
        yield
    finally:
        _current.reset(before)
