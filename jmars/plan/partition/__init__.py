"""Partitions of a graph between the workers of several hosts: METIS, mt-KaHyPar, and the rules of document 004.

parts        subgraphs for a single worker
atomic       subgraphs that can run as single processes
merging      cascade's partition by merging
depth_first  cascade's partition depth first, then expansion
metis        METIS: k parts by edge cut, balanced in time and memory, or in bands of time
km1          mt-KaHyPar: k parts that move fewest bytes
ncd          cascade's scheduler: operands with a near common descendant share a worker
"""
