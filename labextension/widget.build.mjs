// Bundles src/widgets to the module and the sheet that anywidget takes, and to the script of a page with a replay; notes
// the digest of the sources beside them, by which jmars/notebook/widget.py tells a build that is older than its sources.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { build } from 'esbuild';

const shared = { bundle: true, minify: true, logLevel: 'warning', legalComments: 'none' };
const out = '../jmars/notebook/static';
await build({ ...shared, entryPoints: ['src/widgets/index.ts'], format: 'esm', target: 'es2021', outfile: `${out}/widget.js` });
await build({ ...shared, entryPoints: ['style/view.css'], outfile: `${out}/widget.css` });
await build({ ...shared, entryPoints: ['src/widgets/page.ts'], format: 'iife', target: 'es2021', outfile: `${out}/replay.js` });

const sources = ['src', 'style'].flatMap(folder => readdirSync(folder, { recursive: true }).map(name => `${folder}/${name}`)).filter(name => /\.(ts|js|css)$/.test(name));
const digest = createHash('sha256');
sources.sort().forEach(name => digest.update(`${name}\n`).update(readFileSync(name)));
writeFileSync(`${out}/sources.sha256`, `${digest.digest('hex')}\n`);
