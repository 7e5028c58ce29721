"""What jmars costs, beside others and beside its goals: `python -m tests.benchmarks` lists what can be measured.

They are no tests: each prints a table, takes from seconds to an hour, and wants a machine with nothing else to do. With
`--check` most of them end in an error where a goal is missed. docs/how-to/measure.md says which to run when.
"""
