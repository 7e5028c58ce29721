"""The room in Jupyter: the `%%jmars` magic, its live view, and what the JupyterLab side bar asks.

How a cell runs, in reading order:

- magic.py          `%load_ext jmars`: finds the cluster, runs the cell, shows it
- flags.py          the flags of a `%%jmars` line
- cell_source.py    the cell's text, ready to run
- numpy_names.py    what NumPy's names mean inside a cell
- namespace.py      the user's names before, in and after a cell
- cell.py           runs the text; its end computes what it leaves behind
- live.py           the jobs of a cell: submitted, shown, waited for, stopped
- displayed.py      `display(x)` inside a cell shows values
- looks.py          a hint for who looks at many values one by one
- planning.py       what a cell would cost, without running it
- kernel_access.py  the one place that touches ipykernel's insides
- cell_error.py     errors with the user's lines and none of ours
- shown_frames.py   which frames of an error are the user's
- hints.py          what is said beside an error that a user of NumPy would not expect

How a run is seen:

- view.py           names and types of what the view shows
- operand_table.py  operands by state, in boxes that can be drawn
- marks.py          what a box of a large graph opens to
- series.py         memory over time, bounded
- plan_state.py     what a job was predicted to cost, beside what it took
- lane_state.py     what each worker did when, bounded
- worker_state.py   what each worker has, bytes and operands
- run_state.py      events folded to the picture
- sampler.py        frames, at most ten a second
- widget.py         the live view as a widget
- static_view.py    what stays in the saved notebook
- display.py        widget, text or nothing
- server/           the part in the Jupyter server
"""

__all__: list[str] = []
