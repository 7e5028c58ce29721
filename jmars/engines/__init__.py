"""Engines: Dask and Ray clusters as workers of jmars; groups of operands are the engine's tasks.

engine.py         tasks, results and chunks of an engine, by names of ours (`TaskEngine`, `Results`)
groups.py         division of a job's operands into tasks (`planned_groups`)
group_task.py     a group as bytes, and the function that runs it in a worker
engine_job.py     the operands and groups of a job, and their reports (`EngineJob`)
port.py           the engine's workers as the scheduler sees them (`EngineWorkers`)
dask_worker.py    functions in Dask's workers
dask_connection.py  the connection to a Dask scheduler
dask.py           Dask as an engine (`DaskEngine`)
guests.py         hosts that a worker of an engine starts as its children (`begin`, `certify`)
ray_worker.py     functions in Ray's processes
ray_cluster.py    the connection to a Ray cluster, and its nodes
ray.py            Ray as an engine (`RayEngine`)
"""
