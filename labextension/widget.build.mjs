// Bundles src/widgets to the one module and the one sheet that anywidget takes.
import { build } from 'esbuild';

const shared = { bundle: true, minify: true, logLevel: 'warning', legalComments: 'none' };
const out = '../jmars/notebook/static';
await build({ ...shared, entryPoints: ['src/widgets/index.ts'], format: 'esm', target: 'es2021', outfile: `${out}/widget.js` });
await build({ ...shared, entryPoints: ['style/view.css'], outfile: `${out}/widget.css` });
