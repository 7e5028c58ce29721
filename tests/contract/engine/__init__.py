"""The contract of engines: what running operands promises, for each kind of running them (kinds.py).

A package, so that its fixtures may last as long as its tests.
"""
