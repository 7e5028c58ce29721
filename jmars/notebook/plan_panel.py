"""Widgets of plans: the curve of a search for a better plan with a Stop button, and sliders for `what_if`."""

from __future__ import annotations

import threading
from html import escape
from typing import Any

import ipywidgets
import numpy as np

from jmars.client.plans.advice import Improvement
from jmars.client.plans.planned_run import PlannedRun
from jmars.deploy.memory import room_for_chunks
from jmars.errors import JmarsError
from jmars.notebook import kernel_access
from jmars.units import format_seconds

__all__ = ["curve_svg", "explore", "show_improvement"]

SECONDS = 0.25  # between two looks at the search
_WIDE, _HIGH, _LEFT, _BELOW = 560, 150, 70, 20
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
        while not search.wait(SECONDS):
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
        return _LEFT + (_WIDE - _LEFT - 10) * min(t, end) / end

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
        f'<text x="{_LEFT - 6}" y="{y(cost) + 4:.1f}" text-anchor="end" {text}>{format_seconds(cost)}</text>'
        f'<path d="M{_LEFT} {y(cost):.1f}H{_WIDE - 10}" stroke="currentColor" opacity="0.3" stroke-dasharray="3 3"/>'
        for cost, _ in at
    )
    return (
        f'<svg role="img" aria-label="{words}" viewBox="0 0 {_WIDE} {_HIGH}" style="max-width:{_WIDE}px;width:100%">'
        f'{labels}<path d="{"".join(steps)}" fill="none" stroke="#0072b2" stroke-width="2"/>'
        f'<text x="{_WIDE - 10}" y="{_HIGH - 5}" text-anchor="end" {text}>{format_seconds(end)} of search; '
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
