// Shows one or two replays: the view at a moment, with a slider over time, play, speed and steps from event to event.
import { count } from '../model/format';
import { Picture } from '../model/view';
import { Replay } from '../model/replay';
import { Difference, drawDifference } from './difference';
import { h } from './dom';
import { Host } from './host';
import { mount } from './mount';

const SPEEDS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100];
const WATCHED = 10; // seconds that a run takes to play at the first speed, about
const TICKS = 1e6; // of the slider, in a second
const LEAP = 0.1; // share of the run that Page Up and Page Down skip

/** Draws replays into `el`; returns a function that removes them. */
export function play(el: HTMLElement, replays: Replay[], names: string[], difference: Difference | null): () => void {
  const seconds = Math.max(...replays.map(one => one.seconds));
  const moments = replays.map(() => 0);
  const pictures: Partial<Picture>[] = replays.map((one, i) => one.picture(moments[i], 0));
  const changed: (() => void)[] = [];
  let now = 0; // seconds since the submission
  let frame = 0; // request of the next frame; 0 while nothing plays
  let drawnAt = 0; // ms

  const button = (text: string, name: string) => h('button', { type: 'button', class: 'jm-button jm-step', 'aria-label': name, title: name }, text) as HTMLButtonElement;
  const start = button('▶', 'Play');
  const back = button('◂|', 'Previous event');
  const next = button('|▸', 'Next event');
  const slider = h('input', { type: 'range', class: 'jm-slider', min: 0, max: Math.max(1, Math.ceil(seconds * TICKS)), step: 1, value: 0, 'aria-label': 'time of the run' }) as HTMLInputElement;
  const clock = h('span', { class: 'jm-clock' });
  const speed = h('select', { class: 'jm-speed', 'aria-label': 'speed', title: 'Speed' }, ...SPEEDS.map(one => h('option', { value: one }, `${one}×`))) as HTMLSelectElement;
  const event = h('p', { class: 'jm-note jm-event' });
  const ticks = h('div', { class: 'jm-ticks', 'aria-hidden': 'true' });
  const first = h('p', { class: 'jm-firstly', hidden: !difference });
  const list = h('section', { class: 'jm', 'aria-label': 'largest differences', hidden: !difference });
  speed.value = String(SPEEDS.reduce((best, one) => (Math.abs(Math.log(seconds / one / WATCHED)) < Math.abs(Math.log(seconds / best / WATCHED)) ? one : best)));
  const player = h(
    'section',
    { class: 'jm jm-player', 'aria-label': 'jmars replay' },
    h('div', { class: 'jm-controls' }, h('b', {}, 'jmars replay'), start, back, next, h('div', { class: 'jm-axis' }, slider, ticks), clock, speed),
    event,
    first
  );
  const sides = replays.map((one, i) => {
    const place = h('div', { class: 'jm-run' });
    if (replays.length > 1) {
      place.append(h('p', { class: 'jm-which' }, h('b', {}, 'AB'[i]), ` ${names[i] ?? one.name}`));
    }
    return place;
  });
  const root = h('div', { class: 'jm-replay' }, player, h('div', { class: replays.length > 1 ? 'jm-beside' : '' }, ...sides), list);
  el.append(root);

  function draw(): void {
    replays.forEach((one, i) => (pictures[i] = one.picture(moments[i], Math.min(now, one.seconds))));
    slider.value = String(Math.round(now * TICKS));
    slider.setAttribute('aria-valuetext', `${text(now)} of ${text(seconds)}`);
    clock.textContent = `${text(now)} of ${text(seconds)}`;
    event.textContent = replays.map((one, i) => `${replays.length > 1 ? `${'AB'[i]}: ` : ''}event ${count(moments[i] + 1)} of ${count(one.moments)}: ${one.told(moments[i])}`).join('; ');
    changed.forEach(call => call());
  }
  function seek(to: number): void {
    now = Math.min(Math.max(0, to), seconds);
    replays.forEach((one, i) => (moments[i] = one.at(now)));
    draw();
  }
  function step(forward: boolean): void {
    pause();
    const times = replays.map((one, i) => (forward ? (moments[i] + 1 < one.moments ? one.time(moments[i] + 1) : Infinity) : moments[i] > 0 ? one.time(moments[i]) : -1));
    const best = times.indexOf(forward ? Math.min(...times) : Math.max(...times));
    if (times[best] < 0 || times[best] === Infinity) {
      return;
    }
    moments[best] += forward ? 1 : -1;
    now = Math.max(...replays.map((one, i) => one.time(moments[i])));
    draw();
  }
  function run(at: number): void {
    const passed = drawnAt ? (at - drawnAt) / 1000 : 0;
    drawnAt = at;
    seek(now + passed * Number(speed.value));
    frame = now < seconds ? requestAnimationFrame(run) : 0;
    label();
  }
  function pause(): void {
    cancelAnimationFrame(frame);
    frame = 0;
    label();
  }
  function label(): void {
    const name = frame ? 'Pause' : 'Play';
    if (start.title !== name) {
      start.textContent = frame ? '❚❚' : '▶';
      start.title = name;
      start.setAttribute('aria-label', name);
    }
  }
  function text(at: number): string {
    return seconds < 60 ? `${at.toFixed(seconds < 10 ? 3 : 2)} s` : `${Math.floor(at / 60)} min ${(at % 60).toFixed(1).padStart(4, '0')} s`;
  }

  start.addEventListener('click', () => {
    if (frame) {
      pause();
    } else {
      drawnAt = 0;
      if (now >= seconds) {
        seek(0);
      }
      frame = requestAnimationFrame(run);
      label();
    }
  });
  back.addEventListener('click', () => step(false));
  next.addEventListener('click', () => step(true));
  slider.addEventListener('input', () => {
    pause();
    seek(Number(slider.value) / TICKS);
  });
  slider.addEventListener('keydown', pressed => {
    const call = {
      ArrowRight: () => step(true),
      ArrowUp: () => step(true),
      ArrowLeft: () => step(false),
      ArrowDown: () => step(false),
      PageUp: () => seek(now + LEAP * seconds),
      PageDown: () => seek(now - LEAP * seconds)
    }[pressed.key];
    if (call) {
      pressed.preventDefault();
      call();
    }
  });
  const jump = (at: number) => {
    pause();
    seek(at);
  };
  if (difference) {
    drawDifference(first, list, ticks, difference, seconds, jump);
  }
  const unmount = sides.map((place, i) => {
    const host: Host = {
      get: name => pictures[i][name] as never,
      watch: call => {
        changed.push(call);
        return () => void changed.splice(changed.indexOf(call), 1);
      },
      until: seconds
    };
    return mount(place, host);
  });
  // both runs show the same tab
  root.addEventListener('click', clicked => {
    const tab = (clicked.target as Element).closest?.('[role=tab]');
    const place = Number(tab && [...tab.parentElement!.children].indexOf(tab));
    if (tab && replays.length > 1) {
      sides.forEach(side => {
        const other = side.querySelectorAll<HTMLElement>('[role=tab]')[place];
        if (other?.getAttribute('aria-selected') === 'false') {
          other.click();
        }
      });
    }
  });
  seek(seconds); // as the run ended; Play begins at the start
  return () => {
    pause();
    unmount.forEach(call => call());
    root.remove();
  };
}
