"""Engines: Dask and Ray clusters as workers of jmars; groups of operands are the engine's tasks.

engine.py       what jmars asks of an engine (`Engine`), and the records between both
group_graph.py  the operands of a job in the order in which groups are cut
groups.py       which operands are a task of the engine (`plan_groups`)
task.py         runs a group in a worker of the engine (`make_spec`, `run_group`)
"""
