"""Engines: Dask and Ray clusters as workers of jmars; groups of operands are the engine's tasks.

engine.py       what jmars asks of an engine (`TaskEngine`), and the records between both
group_graph.py  the operands of a job in the order in which groups are cut
group_times.py  when the groups of a job would end on their planned workers (`makespan`)
groups.py       which operands are a task of the engine (`plan_groups`)
group_cuts.py   cuts operands to groups within limits (`Cutter`)
small_groups.py  joins groups too short for a task (`join_small`)
group_bundles.py  bundles outputs of a group to single results of the engine (`bundled`)
run_order.py    the order in which operands would start, each by itself (`run_order`)
planned_groups.py  groups by the memory of the workers and predicted costs
task.py         runs a group in a worker of the engine (`make_spec`, `run_group`)
results.py      which result of the engine is which chunk
running_group.py  a group that runs, and what became of its operands
engine_job.py   the operands and groups of a job: what is reported, and when (`EngineJob`)
port.py         the engine's workers as the scheduler sees them (`EngineWorkers`)
links.py        bytes a second between workers, as measured (`LinkSpeed`)
engine_status.py  status of the workers, for `why`
task_book.py    tasks and results by names of ours, for all engines (`TaskBook`)
dask_scheduler.py  what runs in Dask's scheduler: places of group tasks, clean-up
dask_worker.py  what runs in Dask's workers
dask_workers.py  Dask's workers: memory, versions, ends
dask_tasks.py   groups as Dask's tasks
dask_connect.py  address and connection of a Dask scheduler (`connect`)
dask.py         Dask as an engine (`DaskEngine`)
guests.py       hosts that a worker of an engine starts as its children (`begin`, `certify`)
parts.py        parts of chunks in the workers of all engines
ray_worker.py   what runs in Ray's processes
ray_tasks.py    groups as Ray's tasks
ray_nodes.py    Ray's connection, nodes and autoscaler
ray.py          Ray as an engine (`RayEngine`)
"""
