"""Assigns workers to operands.

bfs_v1           initial operands as the first Mars placed them
initial          initial operands, by a search of the graph
earliest_finish  each operand to the worker where it ends first
contiguous       runs of an order, one for each worker
bisection        recursive bisection that moves few bytes
"""
