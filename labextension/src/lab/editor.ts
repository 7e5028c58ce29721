// The editor of cells knows lines of %%jmars and %jmars: CodeMirror reads them as Python, so their parts are marked.
import { RangeSet, RangeSetBuilder } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin, ViewUpdate } from '@codemirror/view';
import { EditorExtensionRegistry, IEditorExtensionRegistry } from '@jupyterlab/codemirror';
import { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Kind, magicSpans } from '../model/magic_line';

const KINDS: readonly Kind[] = ['sign', 'magic', 'flag', 'number', 'comment', 'word'];
const MARKS = Object.fromEntries(KINDS.map(kind => [kind, Decoration.mark({ class: `jm-magic-${kind}` })])) as Record<Kind, Decoration>;

/** Marks of the visible lines. */
function marksOf({ state, visibleRanges }: EditorView): RangeSet<Decoration> {
  const { doc } = state;
  const builder = new RangeSetBuilder<Decoration>();
  let code = 1; // number of the first line that is not blank: the line where a cell magic may stand
  while (code < doc.lines && !doc.line(code).text.trim()) {
    code++;
  }
  for (const { from, to } of visibleRanges) {
    for (let number = doc.lineAt(from).number; number <= doc.lineAt(to).number; number++) {
      const line = doc.line(number);
      for (const [begin, end, kind] of magicSpans(line.text, number === code)) {
        builder.add(line.from + begin, line.from + end, MARKS[kind]);
      }
    }
  }
  return builder.finish();
}

const magicLines = ViewPlugin.define(
  view => ({
    marks: marksOf(view),
    update(change: ViewUpdate) {
      if (change.docChanged || change.viewportChanged) {
        this.marks = marksOf(change.view);
      }
    }
  }),
  { decorations: plugin => plugin.marks }
);

export const editorPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jmars-lab:editor',
  description: 'Colours of %%jmars and %jmars in cells.',
  autoStart: true,
  requires: [IEditorExtensionRegistry],
  activate: (_, extensions: IEditorExtensionRegistry) =>
    extensions.addExtension({
      name: 'jmars:magic',
      factory: ({ inline }) => (inline ? EditorExtensionRegistry.createImmutableExtension(magicLines) : null)
    })
};
