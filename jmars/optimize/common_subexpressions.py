"""Common-subexpression elimination: equal tensors are computed once.

Operands with equal tokens and equal inputs give equal values: `(x + 1) * (x + 1)` adds once. The pass works on tensors,
so its cost does not grow with the number of chunks.
Source: Ershov 1958 (hash-consing).
"""

from __future__ import annotations

from collections.abc import Hashable

from jmars.tensor.tensor_graph import TensorGraph

__all__ = ["merge_equal"]


def merge_equal(graph: TensorGraph) -> TensorGraph:
    """Merges operands of equal (token, annotation, inputs, chunks); returns `graph` itself if all differ.

    Of equal operands the first stays, with its source line; if a merged operand is a result, the remaining operand
    takes the result's key. Two equal results both stay, since clients retain and release them separately, but readers
    of either read the first.

    Operands whose token is None (random numbers without a seed, user functions) are never merged.
    """
    results = set(graph.results)
    first: dict[Hashable, int] = {}  # (token, annotation, inputs, shape, dtype, chunks): the operand that stays
    stands_for = list(range(len(graph.operands)))
    metas = list(graph.metas)
    gone: set[int] = set()
    for k, (operand, inputs, meta) in enumerate(zip(graph.operands, graph.inputs, graph.metas, strict=True)):
        token = operand.token()
        if token is None:
            continue
        read = tuple(stands_for[i] for i in inputs)
        known = (token, operand.annotation, read, meta.shape, meta.dtype, meta.chunks)
        stays = first.setdefault(known, k)
        stands_for[k] = stays
        if stays == k or (k in results and stays in results):
            continue
        gone.add(k)
        if k in results:
            metas[stays] = meta
            results = results - {k} | {stays}
    if not gone and stands_for == list(range(len(stands_for))):
        return graph
    kept = [k for k in range(len(graph.operands)) if k not in gone]
    new = {k: row for row, k in enumerate(kept)}
    return TensorGraph(
        operands=[graph.operands[k] for k in kept],
        inputs=[tuple(new[stands_for[i]] for i in graph.inputs[k]) for k in kept],
        metas=[metas[k] for k in kept],
        results=[new[stands_for[k] if k in gone else k] for k in graph.results],
    )
