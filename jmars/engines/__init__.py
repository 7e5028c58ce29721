"""Engines: Dask and Ray clusters as workers of jmars; groups of operands are the engine's tasks.

engine.py         an engine's tasks and results by names of ours, for all engines (`TaskEngine`)
groups.py         which operands are a task of the engine (`planned_groups`)
group_task.py     a group as bytes, and the function that runs it in a worker
results.py        which result of the engine is which chunk
engine_job.py     the operands and groups of a job: what is reported, and when (`EngineJob`)
port.py           the engine's workers as the scheduler sees them (`EngineWorkers`)
dask_worker.py    what runs in Dask's workers
dask_connection.py  the connection to a Dask scheduler
dask.py           Dask as an engine (`DaskEngine`)
guests.py         hosts that a worker of an engine starts as its children (`begin`, `certify`)
ray_worker.py     what runs in Ray's processes
ray_cluster.py    the connection to a Ray cluster, and its nodes
ray.py            Ray as an engine (`RayEngine`)
"""
