"""Reports of runs, made from the event log alone.

- operand_names.py: names and source lines of a stage's operands
- run_record.py: folds events into columns: operands, memory, transfers, states (RunRecord)
- figures.py: Bokeh figures of a record
- page.py: a report as a self-contained HTML page
"""
