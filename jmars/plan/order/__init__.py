"""Orders to run a graph in, as a rank for each operand.

ranks       depth first, longest path first, by level, and Mars's order
min_memory  the order that holds fewest bytes
"""
