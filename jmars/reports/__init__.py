"""Reports of runs, made from the event log alone.

- run_record.py: folds events into columns: operands, memory, transfers, states (RunRecord)
- figures.py: Bokeh figures of a record
- graph_dot.py: graphs before and after fusion as text for Graphviz
- saved_run.py: a run in a file (SavedRun)
- run_difference.py: the first and the largest differences of two runs
"""
