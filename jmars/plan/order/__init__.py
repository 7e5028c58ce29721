"""Orders to run a graph in, as ranks of operands.

ranks       depth first, longest path first, by level, and Mars's order
min_memory  the order that holds fewest bytes
"""
