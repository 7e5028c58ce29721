"""The Jupyter part: the `%%jmars` magic, its live view, and the server extension behind the JupyterLab side bar.

How a cell runs, in reading order:

- magic.py             `%load_ext jmars`: finds the cluster, runs or predicts the cell, shows its jobs
- flags.py             parses the flags of a `%%jmars` line
- cell_source.py       compiles the cell's text
- numpy_names.py       NumPy's names inside a cell
- namespace.py         the user's names before, in and after a cell
- user_arrays.py       NumPy arrays of the user in a cell, written back after it
- cell.py              runs the code and computes the results
- running_cell.py      a cell while it runs: its line, its jobs, Cancel
- cell_engine.py       submits the jobs of a cell, shows them, waits for them, cancels them
- kernel_access.py     the only file that uses ipykernel's internals
- lexer.py             colours of a `%%jmars` cell for Pygments

How a run is shown:

- view.py           names and types of the view's data
- operand_table.py  operands by state, in boxes and marks that can be drawn
- tab_states.py     memory over time
- run_state.py      folds events to the view's data
- sampler.py        sends frames, at most ten a second
- widget.py         the live view as a widget
- static_view.py    the picture in the saved notebook
- replay.py         saved runs in a notebook, as a page, and in a shell: `jmars.replay`
- display.py        chooses widget, text or no output
- controls.py       shows clusters and jobs in plain cells
- server/           the extension of the Jupyter server
"""

__all__: list[str] = []
