"""The Jupyter part: the `%%jmars` magic, its live view, and the server extension behind the JupyterLab side bar.

How a cell runs, in reading order:

- magic.py             `%load_ext jmars`: finds the cluster, runs the cell, shows its jobs
- flags.py             parses the flags of a `%%jmars` line
- cell_source.py       compiles the cell's text
- guarded_code.py      raises errors of values within `try`
- looks.py             computes the values of a `print` or an f-string together
- numpy_names.py       NumPy's names inside a cell
- imports.py           names bound by the imports of a cell, which outlive an error
- namespace.py         the user's names before, in and after a cell
- user_arrays.py       NumPy arrays of the user in a cell, written back after it
- masked_arrays.py     masked arrays of the user in a cell, written back after it
- view_steps.py        how one NumPy array is a view of another
- cell.py              runs the code and computes the results
- running_cell.py      a cell while it runs: its line, its jobs, Cancel
- cell_engine.py       submits the jobs of a cell, shows them, waits for them, cancels them
- display_hook.py      `display(x)` inside a cell shows values
- implicit_compute.py  warns of many implicit computations
- planning.py          predicts what a cell would cost, without running it
- kernel_access.py     the only file that uses ipykernel's internals
- cell_error.py        errors with the user's lines and without frames of jmars
- cell_place.py        the cluster of `--on`: a Dask or Ray cluster, or a cluster by its name
- traceback_filter.py  selects the user's frames of a traceback
- error_notes.py       notes on errors that a NumPy user would not expect
- completion.py        completes flags and subcommands
- lexer.py             colours of a `%%jmars` cell for Pygments

How a run is shown:

- view.py           names and types of the view's data
- operand_table.py  operands by state, in boxes that can be drawn
- marks.py          the squares in an opened box of a large graph
- series.py         a series with a bounded number of points
- memory_state.py   memory over time
- plan_state.py     predicted costs of a job beside the measured costs
- lane_state.py     the time line of each worker, bounded
- line_state.py     seconds, bytes and states by line of the cell
- worker_rows.py    state, bytes and operands of each worker
- host_state.py     state and memory of each host, and bytes that came from other hosts
- job_run.py        a job of a cell, and sums over all jobs of a cell
- cell_facts.py     the cell's lines, first moment and end
- run_state.py      folds events to the view's data
- sampler.py        sends frames, at most ten a second
- widget.py         the live view as a widget
- static_view.py    the picture in the saved notebook
- replay_data.py    a saved run as moments, moves and keyframes
- replay_page.py    a saved run as an HTML page
- replay.py         saved runs in a notebook: `jmars.replay`
- replay_command.py  tells of saved runs: `python -m jmars replay`
- display.py        chooses widget, text or no output
- job_view.py       the view of a job as the last line of a cell
- cluster_panel.py  a cluster as a widget, with buttons that scale and stop it
- plan_panel.py     the curve of a search for a better plan, and sliders for `what_if`
- progress_bar.py   the progress of a job in a plain cell that waits
- controls.py       shows clusters and jobs in plain cells
- server/           the extension of the Jupyter server
"""

__all__: list[str] = []
