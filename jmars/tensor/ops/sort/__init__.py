"""Sorting, quantiles and distinct elements.

In reading order:

- sample_sort.py: sorting of axes that span many chunks
- quantile_selection.py: exact quantiles without a sort
- weighted_quantiles.py: quantiles with weights
- sort.py: `sort`, `argsort`, `partition`, `lexsort`
- quantiles.py: `median`, `percentile`, `quantile`
- topk.py: `topk`
- unique_axis.py: `unique` along an axis
- unique.py: `unique`, `isin` and set operations
"""
