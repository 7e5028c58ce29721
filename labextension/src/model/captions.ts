// The captions of the two graphs: operands, edges, and how many were fused away.
import { count, plural } from './format';
import type { Side } from './picture';
import { DrawnGraph } from './view';

/** The captions of both sides. */
export function captions(graph: DrawnGraph): Record<Side, string> {
  const stage = graph.stage_number > 1 ? `Stage ${count(graph.stage_number)}, ` : '';
  const [unfused, afterwards] = stage ? [`${stage}before fusion`, `${stage}after fusion`] : ['Before fusion', 'After fusion'];
  const fused = graph.n_before - graph.n_pruned - graph.n_after;
  return {
    before: graph.aggregated
      ? `${unfused}: ${plural(graph.n_before, 'operand')} in ${plural(graph.before.n, 'layer')}`
      : `${unfused}: ${plural(graph.n_before, 'operand')}, ${plural(graph.before.src.length, 'edge')}`,
    after:
      (graph.aggregated ? `${afterwards}: ${plural(graph.n_after, 'operand')} in ${plural(graph.after.n, 'kind')}` : `${afterwards}: ${plural(graph.n_after, 'operand')}, ${plural(graph.after.src.length, 'edge')}`) +
      (fused > 0 ? ` (${count(fused)} fused away` : ' (none fused away') +
      (graph.n_pruned ? `, ${count(graph.n_pruned)} not needed)` : ')')
  };
}
