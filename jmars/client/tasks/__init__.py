"""Task graphs read from a file: functions, their inputs from other tasks, and their costs.

definition.py   parses and checks a document of tasks (Task)
documents.py    reads JSON, YAML or a dict from a file or text
task_graph.py   runs the tasks as one graph of spawned functions, and partitions them (TaskGraph, load_tasks)
"""

from jmars.client.tasks.task_graph import TaskGraph, load_tasks

__all__ = ["TaskGraph", "load_tasks"]
