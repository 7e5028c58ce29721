"""A program of a user: it passes `mypy --strict` here and, in `.ci/release`, against the installed wheel, and runs."""

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.remote import spawn


def double(value: float) -> float:
    return 2 * value


def main() -> None:
    with jmars.Cluster(n_workers=1, memory_limit="256MiB") as cluster:
        a = mt.random.rand(200, 100, chunk_size=100)
        b = mt.ones((200, 100), chunk_size=100)
        mean, total = (a - a).mean(axis=0), (b + np.float64(1)).sum()
        jmars.execute(mean, total)
        job: jmars.Job = cluster.submit(a.max())
        task = spawn(double, args=(float(total.fetch()),))
        shape: tuple[int, ...] = mean.fetch().shape
        job.wait()
        print(shape, task.fetch())


if __name__ == "__main__":
    main()
