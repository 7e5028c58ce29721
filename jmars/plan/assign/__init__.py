"""Assigns workers to operands.

bfs_v1           initial operands as the first Mars placed them
initial          initial operands, by a search of the graph
shuffled         initial operands and reducers, where a graph shuffles
earliest_finish  operands to the worker with the earliest finish time
contiguous       contiguous runs of an order
bisection        recursive bisection that moves few bytes
"""
