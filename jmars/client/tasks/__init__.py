"""Graphs of tasks that stand in a file: functions, what they read of each other, and what they cost.

definition.py   one task, and all of a document, checked (Task)
documents.py    JSON, YAML or a dict, from a file or text
graph.py        the tasks as spawned functions, run as one graph; how they fall into parts (TaskGraph, load_tasks)
"""

from jmars.client.tasks.graph import TaskGraph, load_tasks

__all__ = ["TaskGraph", "load_tasks"]
