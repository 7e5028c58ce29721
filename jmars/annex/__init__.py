"""What the five documents ask for and no run imports; public names lead here on first use.

flow/   the dataflow engine: build time and run time (`jmars.flow`)
planners.py     partitions, copies and stealing of document 004 (`jmars.plan`)
tasks.py        task graphs read from a file (`jmars.remote.load_tasks`)
task_api.py     jobs as Mars's task service shows them, also over HTTP (`jmars.client.TaskAPI`, `WebTaskAPI`)
"""
