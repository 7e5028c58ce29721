"""Partitions of a graph between the workers of several hosts: METIS, mt-KaHyPar, and the rules of document 004.

parts        subgraphs for a single worker
atomic       subgraphs that can run as single processes
merging      cascade's partition by merging
depth_first  cascade's partition depth first, then expansion
metis        METIS: k parts by edge cut, balanced in time and memory, or in bands of time
km1          mt-KaHyPar: k parts that move fewest bytes
ncd          cascade's scheduler: operands with a near common descendant share a worker
"""

from jmars.plan.partition.km1 import assign_km1, has_km1
from jmars.plan.partition.metis import assign_metis, has_metis, metis_groups, suits_metis
from jmars.plan.partition.ncd import assign_ncd, distances, values

__all__ = [
    "assign_km1",
    "assign_metis",
    "assign_ncd",
    "distances",
    "has_km1",
    "has_metis",
    "metis_groups",
    "suits_metis",
    "values",
]
