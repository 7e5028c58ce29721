"""A user's file: test_typing.py checks it by `mypy --strict`; nothing runs it."""

import numpy as np
import numpy.typing as npt

import jmars
import jmars.tensor as mt
from jmars import array_api as xp
from jmars.config import config
from jmars.errors import MemoryLimitError
from jmars.remote import spawn


def scaled(x: mt.Tensor, factor: float = 2.0) -> mt.Tensor:
    return (x - x.mean(axis=0)) / x.std(axis=0) * factor


def area(width: float, height: float) -> float:
    return width * height


def main() -> None:
    with jmars.Cluster(n_workers=2, memory_limit="512MiB") as cluster, config.using(display="none"):
        a = mt.random.rand(1000, 100, chunk_size=250)
        b = mt.ones((100, 10), dtype="f4", chunk_size=50)
        c = mt.sqrt(a) @ b + mt.arange(10)
        total = mt.sum(c, axis=0).execute()
        values: npt.NDArray[np.float64] = total.fetch()
        print(values.shape, scaled(c).T.reshape(-1)[:3].shape, float(c.sum()))
        d = mt.concatenate([a, a], axis=0).rechunk(500)
        q, r = mt.linalg.qr(a)
        print((q @ r).shape, mt.pi, mt.float64(1), mt.add.reduce(a), mt.all(a > 0))
        job: jmars.Job = cluster.submit(d.max(), name="largest")
        if job.wait(timeout=60):
            print(job.result(), job.state, job.progress)
        jmars.execute(c, d)
        called = spawn(area, args=(2.0, 3.0))
        print(called.execute().fetch(), mt.where(a > 0.5, a, 0).astype("i8").dtype, xp.asarray([1, 2]) + 1)
        try:
            mt.fft.rfft(a).execute()
        except MemoryLimitError as error:
            print(error)
    config.task["fuse"] = "chain"
