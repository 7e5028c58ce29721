"""Reports of runs, made from the event log alone.

- operand_names.py: names and source lines of a stage's operands
- run_record.py: folds events into columns: operands, memory, transfers, states (RunRecord)
- pauses.py: long pauses of a run, folded in the time line (Pauses)
- figures.py: Bokeh figures of a record
- graph_dot.py: graphs before and after fusion as text for Graphviz
- operand_facts.py: state, worker and seconds of operands (OperandFacts)
- drawing.py: a graph drawn by Graphviz (Drawing)
- checked_events.py: checks the events of a file
- saved_run.py: a run in a file (SavedRun)
- run_difference.py: the first and the largest differences of two runs
- page.py: a report as a self-contained HTML page
"""
