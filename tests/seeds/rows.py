"""What the five documents ask for, row by row, and how far jmars does it: the table of docs/explanation/sources.md.

A row without remark is shown by its tests. `weaker` tells what is missing of a row that has tests; `open` tells why a
row has none, or none that shows it. `.ci/map` writes the table, test_rows.py compares it with the tests.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ROWS", "Row"]


class Row(NamedTuple):
    """A capability that a document states or implies."""

    asks: str
    weaker: str = ""
    open: str = ""


FUNCTION = "runs of tasks follow it on request, runs of clusters follow other plans: decision 0056"

ON_HOSTS = "on several hosts on request: `assigner`"

ROWS = {
    "S0.1": Row("a submitted graph of tensors becomes a graph of chunks, cut by `chunk_size` of the sources"),
    "S0.2": Row("`chunk_size` as a number, by axis, as splits, or absent"),
    "S0.3": Row("what needs data to be tiled pauses, and the run goes on in stages"),
    "S0.4": Row("fusion makes the graph smaller"),
    "S0.5": Row("single chains become one operand; the documented example", "the default `fuse: region` joins more"),
    "S0.6": Row("a requested result within a chain is kept"),
    "S0.7": Row("fused operands run in numexpr, as the switch `kernels` says"),
    "S0.8": Row("the same by CuPy on a GPU"),
    "S0.9": Row("fusion by colours, as newer Mars", "the two numbers of colours are constants, not settings"),
    "S0.10": Row("what differs in GPU flag, worker or hint, results and sizes that others wait for are not fused"),
    "S0.11": Row("only initial operands are placed before the run; a user may pin operands"),
    "S0.12": Row("the five steps give each worker its share of initial operands", ON_HOSTS),
    "S0.13": Row("few bytes move", ON_HOSTS),
    "S0.14": Row("unequal workers get unequal shares"),
    "S0.15": Row("`task.default_config` and its three switches"),
    "S0.16": Row("`TaskAPI(session_id, task_manager_ref)`"),
    "S0.17": Row("`WebTaskAPI(session_id, address)`"),
    "S0.18": Row("progress rises from 0 to 1 over all stages"),
    "S1.1": Row("`chunks=` as another spelling"),
    "S1.2": Row("compose can be switched off for a submission", "the word is `fuse_enabled`"),
    "S1.3": Row("fusion can be undone"),
    "S1.4": Row("the first Mars's placement, with its two extra rules, as `assigner: bfs-v1`"),
    "S1.5": Row("depth, successors and descendants of operands"),
    "S2.1": Row("data nodes and compute nodes, joined by names"),
    "S2.2": Row("one producer for each data node; nodes without one are inputs"),
    "S2.3": Row("named and anonymous inputs and outputs"),
    "S2.4": Row("a builder that changes, a graph that does not"),
    "S2.5": Row("an instance belongs to one run, is reset and used again"),
    "S2.6": Row("a pool of instances"),
    "S2.7": Row("activation reaches what is asked for, and nothing else"),
    "S2.8": Row("ready vertices run at once, in parallel"),
    "S2.9": Row("the static part belongs to the builder, and lives long enough"),
    "S2.10": Row("a processor for each vertex of an instance, with state of its own"),
    "S2.11": Row("no global lock, only counters of dependencies"),
    "S2.12": Row("unconditional: activation +1, readiness -1, ready at 0"),
    "S2.13": Row("conditional counting", "0 or -1 at rest after readiness too; the document says 0"),
    "S2.14": Row("a branch that is not taken is not computed; `mt.cond` for arrays"),
    "S2.15": Row("`on`, `unless`, essential, mutable, trivial, executors, closures, channels, expressions"),
    "S2.16": Row("errors end a run once, and say what was not ready"),
    "S2.17": Row("less overhead than a lock"),
    "S3.1": Row("schedulers, workers and web apart", "one process unless `schedulers=` or `detach=True`"),
    "S3.2": Row("actors: created, addressed by name, told, asked, delayed, destroyed, in another process"),
    "S3.3": Row("a client submits a graph by REST"),
    "S3.4": Row("a session makes a graph actor for each job"),
    "S3.5": Row("a client polls the state to the end"),
    "S3.6": Row("tile, rank, place, make operands; a cancel is looked for between"),
    "S3.7": Row("operands over all schedulers by hashing", "with `schedulers=n`; one leads: decision 0050"),
    "S3.8": Row("topological order; done when all ends are"),
    "S3.9": Row("results through the web service", "uncompressed"),
    "S3.10": Row("a ready operand is submitted to the worker that was chosen for it"),
    "S3.11": Row("a callback at the end; late listeners are told at once"),
    "S3.12": Row("a failed operand is tried several times, then fails: decision 0045"),
    "S3.13": Row("cancel by REST"),
    "S3.14": Row("cancel of operands that wait and that run"),
    "S3.15": Row("eight states of an operand, with a handler for each"),
    "S3.16": Row("the end of an operand frees what it read, and makes its readers ready"),
    "S3.17": Row("FREED, FATAL and CANCELLED"),
    "S3.18": Row("the worker with most of the input", "an idle worker of the host takes it: memory is shared there"),
    "S3.19": Row("offered to all chosen workers, the first takes it: `dispatch: late`, decision 0046"),
    "S3.20": Row("an executable graph of Fetch operands and the operand", "made when it is asked for; holds a pickle"),
    "S3.21": Row("an order that keeps few bytes stored"),
    "S3.22": Row("a queued operand may get another priority"),
    "S3.23": Row("results are pushed to the likely reader", "its host reads them ahead: decision 0075"),
    "S3.24": Row("several processes against the global lock", "seen on two processors; four are not measured"),
    "S3.25": Row("results in shared memory"),
    "S3.26": Row("four states of an execution"),
    "S3.27": Row("steps of an execution; errors of any reach one handler", "callbacks, no promises: decision 0025"),
    "S3.28": Row("several callbacks"),
    "S3.29": Row("a priority queue at the worker, served when operands come and end"),
    "S3.30": Row("a quota for process memory"),
    "S3.31": Row("memory is estimated before the run"),
    "S3.32": Row("shared memory is half of all, and can be set"),
    "S3.33": Row("unused chunks are spilled"),
    "S3.34": Row("a chunk with one reader is loaded privately"),
    "S3.35": Row("a lost input sends an operand back to UNSCHEDULED"),
    "S3.36": Row("fail-over of workers"),
    "S3.37": Row("shuffles", "`searchsorted` gathers its sorted array"),
    "S3.38": Row("fail-over of schedulers", "with `schedulers=n` or `detach=True`"),
    "S3.39": Row("measured speeds, and the time that is left"),
    "S4.1": Row("arrays of a GPU without copies"),
    "S4.2": Row("the cost of the first CUDA call is known"),
    "S4.3": Row("kernels of CUDA in tasks"),
    "S4.4": Row("UCX as transport", "between hosts, where the user asks for it; not run over RDMA"),
    "S4.5": Row("a worker for each processor or GPU", "several GPUs of a machine: only GPUs made of NumPy were tried"),
    "S4.6": Row("reads and sends between workers; stored where no send is possible"),
    "S4.7": Row("workers that live on, or for one subgraph"),
    "S4.8": Row("a manager starts workers and gives out subgraphs", "subgraphs on request: `parts=\"processes\"`"),
    "S4.9": Row("a task: inputs, function, outputs", "no schemas"),
    "S4.10": Row("a file of tasks, split into subgraphs", "a process runs a part on request: decision 0056"),
    "S4.11": Row("as breadth first as memory allows"),
    "S4.12": Row("partition by merging", FUNCTION),
    "S4.13": Row("which neighbour joins a part", FUNCTION),
    "S4.14": Row("total assigned time of a context", FUNCTION),
    "S4.15": Row("outputs that wait for another context are told"),
    "S4.16": Row("partition depth first, then expansion", FUNCTION),
    "S4.17": Row("graphs of tasks and of contexts, with costs"),
    "S4.18": Row("a schedule is judged by its whole timeline", "a test orders two real runs; more in a benchmark"),
    "S4.19": Row("work is stolen where there is a wait", "a function; runs move what waits by the load of hosts"),
    "S4.20": Row("work is duplicated instead of sent", "a function; runs duplicate stragglers only"),
    "S4.21": Row("from the longest critical path backwards with least memory"),
    "S4.22": Row("METIS, and multilevel moves", "runs on several hosts may follow METIS; the moves are a function"),
    "S4.23": Row("simulated annealing, with a curve and a stop button"),
    "S4.24": Row("cascade's scheduler as `assigner: ncd`", f"at most 4,000 operands; {ON_HOSTS}"),
    "S4.25": Row("shared memory with page-out", "by next use, not by cascade's classes; nothing grows stale"),
    "S4.26": Row("a gateway, and a script for SLURM", "REST has no shutdown"),
}  # fmt: skip
