// The tabs of the view, in their order.
import { graphTab } from './graph_tab';
import { linesTab } from './lines';
import { memoryTab } from './memory';
import { operandsTab } from './operands';
import { planTab } from './plan';
import { Tab } from './tab';
import { workersTab } from './workers';

export const TABS: Tab[] = [linesTab, graphTab, workersTab, operandsTab, memoryTab, planTab];
