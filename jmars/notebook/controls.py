"""Views in plain cells: clusters, jobs and plans as the last line, bars of cells that wait, and lines of functions.

`jmars.client.notebook_views` loads this file in a Jupyter kernel, on first use.

A cluster is a widget: workers, hosts, memory and running jobs, live; buttons that scale, adapt and stop the cluster.
The widget asks the cluster every two seconds, on a separate thread, until the cluster is closed or gone. Calls that
take long (scale, adapt, stop) run on threads too, so that the kernel stays free. All cells of a kernel with a
cluster show the same widget, by the newest open connection.

Widgets of plans are the curve of a search for a better plan with a Stop button, and sliders for `what_if`. A plain cell
that has waited for a job for half a second gets a bar: an output that is updated four times a second and emptied at the
end, so that a saved notebook keeps none. Cells of `%%jmars` have separate views.
Source: docs/explanation/owners.md, "A button only asks"; `distributed.deploy.Cluster._ipython_display_` for the idea.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from typing import Any

import ipywidgets
import numpy as np
from IPython.display import DisplayHandle, display

from jmars.actors import registry
from jmars.client.cluster import Cluster
from jmars.client.cluster_registry import open_clusters
from jmars.client.job import Job
from jmars.client.job_output import Lines, ShownLine, left_out_text
from jmars.client.notebook_views import ClusterFacts
from jmars.client.plans.advice import Improvement
from jmars.client.plans.planned_run import PlannedRun
from jmars.deploy.memory import room_for_chunks, usable_cores
from jmars.errors import ClusterError, ClusterStoppedError, JmarsError
from jmars.notebook import kernel_access
from jmars.notebook.display import show_job
from jmars.units import format_seconds

_panels: dict[str, ClusterPanel] = {}  # by the cluster's id, as long as the cluster is there


def show(what: Any) -> None:
    """Shows a cluster or a job in the running cell.

    Raises
    ------
    NotImplementedError
        For what has no view, so that IPython shows its text.
    """
    if isinstance(what, Cluster) and not what.closed:
        for gone in [name for name, panel in _panels.items() if panel.over.is_set() and name != what.id]:
            del _panels[gone]
        if what.id in _panels:
            _panels[what.id].follow(what)  # the widgets that are shown already go on, by the newest connection
        else:
            _panels[what.id] = ClusterPanel(what)
        _display(_panels[what.id].widget, repr(what))
    elif isinstance(what, Improvement):
        _display(show_improvement(what), repr(what))
    elif isinstance(what, Job):
        try:
            show_job(what)
        except FileNotFoundError as error:  # the front end was not built
            raise NotImplementedError from error
    else:
        raise NotImplementedError


def _display(widget: Any, text: str) -> None:
    """Displays a widget, with `text` for pages without widgets."""
    display(widget._repr_mimebundle_() | {"text/plain": text}, raw=True)  # type: ignore[no-untyped-call]


log = logging.getLogger("jmars.notebook")

POLL_SECONDS = 2.0  # between two looks at the cluster
_JOBS = 8  # listed jobs
_MOST = 10_000  # workers or hosts
_AFTER_ENTER = 2.0  # seconds after Enter within which the page sends the field's text, unless the text is unchanged
_MANY = 4  # workers per core; a larger number needs a second click
_WIDE = 'style="width:12em;vertical-align:middle"'


class ClusterPanel:
    """The widget of a cluster.

    Parameters
    ----------
    cluster
        The cluster.

    Attributes
    ----------
    widget
        To display; the same for all cells that show the cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._facts = ipywidgets.HTML()
        self._told = ipywidgets.HTML()  # outcome of the last request
        self._number = _field("workers", self._ask_scale)
        self._least, self._most = (_field(word, self._ask_adapt) for word in ("or as the work needs, from", "to"))
        self._scale = _button("Scale", "Have this number of workers or hosts", self._ask_scale)
        self._adapt = _button("Adapt", "Have the number follow the work, between these bounds", self._ask_adapt)
        self._stop = _button("Stop cluster…", "End the cluster and its processes, for all who use it", self._ask_stop)
        self._sure = _button("Stop it now", "Running jobs end, and the memory of the cluster is freed", self._do_stop)
        self._keep = _button("Keep it", "The cluster goes on", self._do_keep)
        self._sure.button_style = "danger"
        adapting = (self._least, self._most, self._adapt)
        self._scaling = ipywidgets.HBox((self._number, self._scale), layout={"flex_flow": "row wrap"})
        self._buttons = ipywidgets.HBox([self._scaling, self._stop], layout={"flex_flow": "row wrap"})
        self.widget = ipywidgets.VBox([self._facts, self._buttons, self._told])
        self.over = threading.Event()  # the cluster is gone
        self._stopping = False
        self._now = -1  # workers or hosts at the last look
        self._sure_of = 0  # workers that were asked about
        self._alone, self._engine = True, ""  # without hosts and engine; the engine's name
        asking = (self._number, self._least, self._most, self._scale, self._adapt)
        for one in (self.widget, self._stop, self._sure, self._keep, *asking):
            kernel_access.unpin(one.comm)
        facts = self._look()
        if facts is not None:
            self._number.description = "hosts" if facts.hosts else "workers"
            self._least.value, self._most.value = map(str, facts.bounds or (min(1, self._now), self._now))
            self._scaling.layout.display = None if facts.scalable else "none"
            self._alone, self._engine = not facts.elastic, facts.engine.capitalize()
            if facts.elastic:
                self._scaling.children += adapting
            self._start()

    def follow(self, cluster: Cluster) -> None:
        """Asks by this connection to the cluster from now on, also after the end of an earlier connection."""
        self._cluster = cluster
        if self.over.is_set():
            self.over, self._stopping = threading.Event(), False
            self._do_keep()
            if self._look() is not None:
                self._start()

    def _start(self) -> None:
        threading.Thread(target=self._watch, args=(self.over,), name="jmars-cluster-panel", daemon=True).start()

    def _watch(self, over: threading.Event) -> None:
        """Looks at the cluster until the cluster is gone."""
        while not over.wait(POLL_SECONDS) and self._look() is not None:
            pass

    def _look(self) -> ClusterFacts | None:
        """Draws the cluster as found now; returns None after the end of the cluster."""
        cluster = self._cluster
        try:
            if cluster.closed:
                raise ClusterError("the connection is closed")
            facts = ClusterFacts.of(cluster.info(), cluster.jobs())
        except (JmarsError, OSError) as error:
            others = [] if self._stopping else [one for one in open_clusters() if one.id == cluster.id]
            newest = others[-1] if others and self._cluster is cluster else self._cluster
            if newest is not cluster:
                self._cluster = newest
                return self._look()
            self._end(error)
            return None
        html = facts_html(facts)
        if html != self._facts.value:
            self._facts.value = html
        self._count(len(facts.hosts) or facts.workers)
        return facts

    def _count(self, now: int) -> None:
        """Writes a new number of workers into the field, unless a user has typed a number."""
        if now != self._now:
            if self._number.value in ("", str(self._now)):
                self._number.value = str(now)
            self._now = now

    def _end(self, error: Exception) -> None:
        """Draws a cluster that is gone, without buttons."""
        self.over.set()
        stopped = self._stopping or isinstance(error, ClusterStoppedError)
        closed = self._cluster.closed and not stopped
        self._facts.value = (
            f"<b>{escape(self._cluster.name)}</b>: {'stopped' if stopped else 'closed' if closed else 'gone'}"
        )
        self._told.value = "" if self._stopping or closed else escape(str(error).splitlines()[0][:300])
        self._buttons.children = ()

    def _ask_scale(self) -> None:
        try:
            wanted = _whole(self._number, int(self._alone))
        except ValueError as error:
            self._told.value = escape(str(error))
            return
        cores = usable_cores()
        here = self._alone and any(entry.id == self._cluster.id for entry in registry.entries())
        if here and wanted > max(_MANY * cores, self._now) and self._sure_of != wanted:
            self._sure_of = wanted
            self._told.value = (
                f"{wanted:,} workers on {cores} core{'s' if cores > 1 else ''}: each is a process of its own, and they "
                "take turns. Click Scale once more to have them."
            )
            return
        self._sure_of = 0
        done = f"It has {wanted} now." if not self._engine else f"It has {wanted} as soon as {self._engine} gives them."
        self._ask(lambda: self._cluster.scale(wanted), str(wanted), done)

    def _ask_adapt(self) -> None:
        try:
            least = _whole(self._least, 0)
            most = _whole(self._most, max(1, least))
        except ValueError as error:
            self._told.value = escape(str(error))
            return
        bounds = f"{least} to {most}"
        self._ask(lambda: self._cluster.adapt(least, most), bounds, f"The number follows the work, from {bounds}.")

    def _ask(self, call: Callable[[], Any], wanted: str, done: str) -> None:
        self._told.value = f"Asked for {wanted}…"
        self._scale.disabled = self._adapt.disabled = True
        self._apart(call, done)

    def _ask_stop(self) -> None:
        facts = self._look()
        if facts is None:
            return
        running = len(facts.jobs)
        lost = f"{running} running job{'s' if running > 1 else ''} will end" if running else "No job runs"
        self._told.value = f"{lost}. Values that only the cluster has are computed again when they are needed."
        self._buttons.children = (self._sure, self._keep)

    def _do_keep(self) -> None:
        self._told.value = ""
        self._sure.disabled = self._keep.disabled = False
        self._buttons.children = (self._scaling, self._stop)

    def _do_stop(self) -> None:
        self._stopping = True
        self._told.value = "It is being stopped…"
        self._sure.disabled = self._keep.disabled = True
        self._apart(self._cluster.stop, "")

    def _apart(self, call: Callable[[], Any], done: str) -> None:
        """Makes a call on a thread, and tells how the call ended."""

        def work() -> None:
            try:
                call()
                self._told.value = done
            except (JmarsError, ValueError, OSError) as error:
                self._told.value = escape(str(error))
                self._stopping = self._sure.disabled = self._keep.disabled = False
            finally:
                self._scale.disabled = self._adapt.disabled = False
                self._look()

        threading.Thread(target=work, name="jmars-cluster-call", daemon=True).start()


def _field(name: str, call: Callable[[], None]) -> Any:
    """A field that keeps the typed text: a wrong number is refused, not guessed at."""
    layout, style = {"width": f"{70 + 7 * len(name)}px"}, {"description_width": "initial"}
    field = ipywidgets.Text(description=name, layout=layout, style=style, continuous_update=False)

    entered: list[bool] = []  # pending Enter keys: the page sends Enter before the text

    def have() -> None:
        with suppress(IndexError):  # the text came meanwhile
            entered.pop()
            call()

    def asked(_: Any, content: Any, buffers: Any) -> None:
        if content.get("event") == "submit":
            entered[:] = [True]
            timer = threading.Timer(_AFTER_ENTER, have)
            timer.daemon = True  # the kernel may end meanwhile
            timer.start()

    field.on_msg(asked)
    field.observe(lambda _: have(), "value")
    return field


def _whole(field: Any, least: int) -> int:
    """The number in a field; raises ValueError with the reason for the user."""
    text = field.value.strip()
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{text or 'An empty field'} is no whole number")
    if not least <= int(text) <= _MOST:
        raise ValueError(f"{text} is not from {least} to {_MOST:,}")
    return int(text)


def _button(text: str, tip: str, call: Callable[[], None]) -> Any:
    button = ipywidgets.Button(description=text, tooltip=tip, layout={"width": "auto"})
    button.on_click(lambda _: call())
    return button


def facts_html(facts: ClusterFacts) -> str:
    """The facts as HTML; all text is escaped.

    Examples
    --------
    >>> facts = ClusterFacts("<b>", 2, 1, (), "", 2**29, 2**30, 0, 0, (), False)
    >>> "&lt;b&gt;" in facts_html(facts), "2 workers (1 busy)" in facts_html(facts)
    (True, True)
    """
    memory = facts.memory_text()
    rows = [f"<div><b>{escape(facts.name)}</b> · {escape(facts.counts())}</div>"]
    if facts.hosts:
        rows.append(f"<div>hosts: {escape(', '.join(facts.hosts[:12]))}{' …' if len(facts.hosts) > 12 else ''}</div>")
    meter = f'<meter max="{facts.limit}" value="{min(facts.memory, facts.limit)}" {_WIDE} aria-label="memory"></meter> '
    rows.append(f"<div>memory: {meter if facts.limit else ''}{escape(memory)}</div>")
    if not facts.jobs:
        rows.append("<div>no job runs</div>")
    rows += [_job_html(job) for job in facts.jobs[:_JOBS]]
    if len(facts.jobs) > _JOBS:
        rows.append(f"<div>and {len(facts.jobs) - _JOBS} more jobs</div>")
    return f'<div style="line-height:1.6">{"".join(rows)}</div>'


def _job_html(job: Any) -> str:
    name, share = escape(str(job.get("name") or job["id"])[:60]), float(job.get("progress") or 0.0)
    took = f", {format_seconds(job['elapsed'])}" if job.get("elapsed") else ""
    bar = f'<progress max="1" value="{share:.3f}" {_WIDE} aria-label="progress of {name}"></progress>'
    return f"<div>{bar} {name}: {escape(str(job['state']))}, {100 * share:.0f} %{took}</div>"


SEARCH_PERIOD = 0.25  # between two looks at the search
_PLOT_WIDTH, _HIGH, _PLOT_LEFT, _BELOW = 560, 150, 70, 20
_POINTS = 300
_LEAST = 2**28  # bytes of the memory limit


def show_improvement(search: Improvement) -> Any:
    """The widget of a search, live until the search ends."""
    curve = ipywidgets.HTML()
    told = ipywidgets.HTML()
    stop = ipywidgets.Button(description="Stop", tooltip="End the search with the best plan so far")
    stop.on_click(lambda _: search.stop())
    widget = ipywidgets.VBox([curve, ipywidgets.HBox([stop, told])])
    for one in (widget, stop):
        kernel_access.unpin(one.comm)

    def look() -> None:
        curve.value, told.value = (
            curve_svg(search.curve[:], search.elapsed, search.plan.lower_bound),
            escape(search.text()),
        )

    def watch() -> None:
        while not search.wait(SEARCH_PERIOD):
            look()
        look()
        stop.layout.display = "none"  # last: whoever sees no button sees how the search ended

    look()
    threading.Thread(target=watch, name="jmars-improvement-view", daemon=True).start()
    return widget


def curve_svg(curve: list[tuple[float, float]], elapsed: float, bound: float) -> str:
    """The best simulated seconds over the seconds of the search, as SVG; `bound` is the least that any plan takes.

    Examples
    --------
    >>> text = curve_svg([(0.0, 4.0), (1.0, 3.0)], 2.0, 2.5)
    >>> 'aria-label="best plan: 4.00 s at first, 3.00 s after 2.00 s"' in text
    True
    """
    end = max(elapsed, curve[-1][0], 1e-6)
    top = max(cost for _, cost in curve)
    low = min(bound, min(cost for _, cost in curve))
    low -= 0.05 * (top - low) or 1e-9

    def x(t: float) -> float:
        return _PLOT_LEFT + (_PLOT_WIDTH - _PLOT_LEFT - 10) * min(t, end) / end

    def y(cost: float) -> float:
        return 10 + (_HIGH - 10 - _BELOW) * (top - cost) / (top - low)

    kept = curve[:: max(1, len(curve) // _POINTS)]
    kept = kept if kept[-1] == curve[-1] else [*kept, curve[-1]]
    steps = [f"M{x(kept[0][0]):.1f} {y(kept[0][1]):.1f}"]
    steps += [f"H{x(t):.1f}V{y(cost):.1f}" for t, cost in kept[1:]] + [f"H{x(end):.1f}"]
    best = kept[-1][1]
    words = f"best plan: {format_seconds(curve[0][1])} at first, {format_seconds(best)} after {format_seconds(end)}"
    text = 'fill="currentColor" font-size="11" font-family="system-ui, sans-serif"'
    at = [(top, "at first"), (bound, "bound")] if y(bound) - y(top) > 14 else [(top, "at first")]
    labels = "".join(
        f'<text x="{_PLOT_LEFT - 6}" y="{y(cost) + 4:.1f}" text-anchor="end" {text}>{format_seconds(cost)}</text>'
        f'<path d="M{_PLOT_LEFT} {y(cost):.1f}H{_PLOT_WIDTH - 10}" stroke="currentColor" opacity="0.3" '
        'stroke-dasharray="3 3"/>'
        for cost, _ in at
    )
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {_PLOT_WIDTH} {_HIGH}" '
        f'style="max-width:{_PLOT_WIDTH}px;width:100%">'
        f'{labels}<path d="{"".join(steps)}" fill="none" stroke="#0072b2" stroke-width="2"/>'
        f'<text x="{_PLOT_WIDTH - 10}" y="{_HIGH - 5}" text-anchor="end" {text}>{format_seconds(end)} of search; '
        f"dashed: at first, and the bound that no plan can beat</text></svg>"
    )


def explore(plan: PlannedRun) -> Any:
    """Sliders for `what_if`: workers, memory limit and, on several machines, bandwidth.

    A slider that was not moved leaves the machines as planned.
    """
    cores, room = int(plan.workers.cores.max()), int(plan.workers.memory.max())
    limit = (2 * room - room_for_chunks(room, cores) if room > _LEAST else _LEAST) >> 20  # MiB
    wide = {"layout": {"width": "420px"}, "style": {"description_width": "130px"}, "continuous_update": False}
    sliders: dict[str, Any] = {
        "workers": ipywidgets.IntSlider(cores, 1, max(16, 4 * cores), description="workers", **wide),
        "memory": ipywidgets.IntSlider(limit, 256, max(2048, 8 * limit), 64, description="memory (MiB)", **wide),
    }
    if len(plan.workers) > 1:
        between = plan.workers.bandwidth[~np.eye(len(plan.workers), dtype=bool)]
        rate = max(1, int(np.min(between)) >> 20)
        sliders["bandwidth"] = ipywidgets.IntSlider(rate, 1, 10 * rate, description="bandwidth (MiB/s)", **wide)
    begin = {name: slider.value for name, slider in sliders.items()}  # a slider keeps to its bounds
    shown = ipywidgets.HTML()

    def look(**now: int) -> None:
        unit = {"workers": 1, "memory": 2**20, "bandwidth": 2**20}
        change: dict[str, Any] = {name: now[name] * unit[name] for name in now if now[name] != begin[name]}
        try:
            text = str(plan.what_if(**change) if change else plan)
        except (JmarsError, ValueError) as error:
            text = str(error)
        shown.value = f"<pre style='white-space:pre-wrap;margin:0'>{escape(text)}</pre>"

    out = ipywidgets.interactive_output(look, sliders)
    return ipywidgets.VBox([*sliders.values(), shown, out])


def draw_output(header: dict[str, Any], display: str, lines: Lines, update: bool) -> None:
    """Shows lines of functions below the cell with a header; `update` replaces the earlier picture."""
    kernel_access.publish(header, display, output_bundle(lines), update)


_DIM = "color:var(--jp-ui-font-color2,#757575)"
_PRE = "margin:0;white-space:pre-wrap;overflow-wrap:anywhere;background:transparent"


def output_bundle(lines: Lines) -> dict[str, str]:
    """Lines as HTML and as text.

    Examples
    --------
    >>> lines = Lines()
    >>> lines.add(ShownLine("worker-0", False, "", 0, "<b>"))
    >>> print(output_bundle(lines)["text/html"].partition(">")[2])
    <span style="color:var(--jp-ui-font-color2,#757575)">(worker-0)</span> &lt;b&gt;</pre>
    """
    rows = [_row(one) for one in lines.first]
    if lines.left_out:
        rows.append(f'<span style="{_DIM}">{left_out_text(lines.left_out)}</span>')
    rows += [_row(one) for one in (*lines.last, *sorted(lines.live.values()))]
    html = "\n".join(rows)
    return {"text/html": f'<pre style="{_PRE}">{html}</pre>', "text/plain": "\n".join(lines.texts())}


def _row(line: ShownLine) -> str:
    words = escape(line.words)
    if line.is_error:
        words = f'<span style="color:var(--jp-error-color1,#c62828)">{words}</span>'
    return f'<span style="{_DIM}">{escape(line.label)}</span> {words}'


STEP_SECONDS = 0.25
_GONE = {
    "text/html": '<span class="jmars-gone"></span>',
    "text/plain": "",
}  # labextension/style/lab.css hides the output


def wait_with_bar(done: threading.Event, timeout: float | None, describe: Callable[[], Mapping[str, Any]]) -> bool:
    """Wait for `done`, at most `timeout` seconds, with a bar; returns whether the job has ended."""
    end = None if timeout is None else time.monotonic() + timeout
    handle: DisplayHandle | None = None
    try:
        while not done.is_set():
            job = describe()
            bundle = {"text/html": bar_html(job), "text/plain": "jmars: " + _words(job)}
            if handle is None:
                handle = DisplayHandle()  # type: ignore[no-untyped-call]
                handle.display(bundle, raw=True)  # type: ignore[no-untyped-call]
            else:
                handle.update(bundle, raw=True)  # type: ignore[no-untyped-call]
            left = STEP_SECONDS if end is None else min(STEP_SECONDS, end - time.monotonic())
            if done.wait(max(0.0, left)):
                return True
            if end is not None and time.monotonic() >= end:
                return False
        return True
    except ClusterError:  # the cluster is gone, and the end of the job says so
        return done.wait(None if end is None else max(0.0, end - time.monotonic()))
    finally:
        if handle is not None:
            handle.update(_GONE, raw=True)  # type: ignore[no-untyped-call]


def bar_html(job: Mapping[str, Any]) -> str:
    """The bar of a job.

    Parameters
    ----------
    job
        `Job.describe()`.

    Examples
    --------
    >>> job = {"name": "<sum>", "state": "running", "progress": 0.5, "elapsed": 4.0, "eta": 4.0}
    >>> print(bar_html(job).partition(" aria-")[2])
    label="progress of &lt;sum&gt;"></progress> &lt;sum&gt;: 50 % after 4.00 s, about 4.00 s left
    """
    name, share = escape(str(job["name"])[:60]), float(job["progress"])
    bar = f'<progress max="1" value="{share:.3f}" style="width:16em" aria-label="progress of {name}"></progress>'
    return f"{bar} {escape(_words(job))}"


def _words(job: Mapping[str, Any]) -> str:
    name, took = str(job["name"])[:60], format_seconds(job["elapsed"])
    if job["state"] == "preparing":
        return f"{name} is prepared, for {took}"
    left = f", about {format_seconds(job['eta'])} left" if job.get("eta") else ""
    return f"{name}: {100 * float(job['progress']):.0f} % after {took}{left}"
