// The entry of a page with a replay, which jmars/notebook/replay.py writes: no network, no kernel.
import { showReplay } from '../draw/replayed';

const dark = window.matchMedia('(prefers-color-scheme: dark)');
const theme = () => (document.documentElement.dataset.theme = dark.matches ? 'dark' : 'light');
dark.addEventListener('change', theme);
theme();
showReplay(document.getElementById('view')!, JSON.parse(document.getElementById('replay')!.textContent || '{}'));
