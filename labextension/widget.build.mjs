// Bundles src/widgets to the module and the sheet that anywidget takes, and to the script of a page with a replay.
import { build } from 'esbuild';

const shared = { bundle: true, minify: true, logLevel: 'warning', legalComments: 'none' };
const out = '../jmars/notebook/static';
await build({ ...shared, entryPoints: ['src/widgets/index.ts'], format: 'esm', target: 'es2021', outfile: `${out}/widget.js` });
await build({ ...shared, entryPoints: ['style/view.css'], outfile: `${out}/widget.css` });
await build({ ...shared, entryPoints: ['src/widgets/page.ts'], format: 'iife', target: 'es2021', outfile: `${out}/replay.js` });
