"""A cluster as a widget: workers, hosts, memory and running jobs, live; buttons that scale, adapt and stop the cluster.

The widget asks the cluster every two seconds, on a separate thread, until the cluster is closed or gone. Calls that
take long (scale, adapt, stop) run on threads too, so that the kernel stays free. All cells of a kernel with a
cluster show the same widget, by the newest open connection.
Source: docs/explanation/owners.md, "A button only asks"; `distributed.deploy.Cluster._ipython_display_` for the idea.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets

from jmars.actors import registry
from jmars.client.cluster import open_clusters
from jmars.client.notebook_views import ClusterFacts
from jmars.deploy.memory import usable_cores
from jmars.errors import ClusterError, ClusterStoppedError, JmarsError
from jmars.notebook import kernel_access
from jmars.units import format_seconds

if TYPE_CHECKING:
    from jmars.client.cluster import Cluster

__all__ = ["ClusterPanel", "facts_html"]

log = logging.getLogger("jmars.notebook")

SECONDS = 2.0  # between two looks at the cluster
_JOBS = 8  # that are listed
_MOST = 10_000  # workers or hosts
_AFTER_ENTER = 2.0  # seconds within which the page sends the text of a field after its Enter, unless it is the old text
_MANY = 4  # workers for each core, beyond which one is asked again
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
        self._told = ipywidgets.HTML()  # what the last request came to
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
        self._over = threading.Event()  # the cluster is gone
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

    @property
    def over(self) -> bool:
        """Whether the cluster is gone."""
        return self._over.is_set()

    def follow(self, cluster: Cluster) -> None:
        """Asks by this connection to the cluster from now on, also after the end of an earlier connection."""
        self._cluster = cluster
        if self.over:
            self._over, self._stopping = threading.Event(), False
            self._do_keep()
            if self._look() is not None:
                self._start()

    def close(self) -> None:
        """Looks at the cluster no more."""
        self._over.set()

    def _start(self) -> None:
        threading.Thread(target=self._watch, args=(self._over,), name="jmars-cluster-panel", daemon=True).start()

    def _watch(self, over: threading.Event) -> None:
        """Looks at the cluster until the cluster is gone."""
        while not over.wait(SECONDS) and self._look() is not None:
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
        self._over.set()
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

    entered: list[bool] = []  # Enter, which the page tells before the text

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
