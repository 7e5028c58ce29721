"""Every lazy function of NumPy's namespaces, with how to draw its arguments: one row each.

In reading order:

- draws.py: `Draw`, what rows ask for, and `Call`, what they give
- elementwise.py, reductions.py, shapes.py, choosing.py, linear.py: the rows
- comparing.py: what "equal to NumPy" means

A row in `EXACT` gives NumPy's very values; one in `CLOSE` adds in another order, and is as near as its dtype is fine.
"""

from tests.tensor.table import choosing, elementwise, linear, reductions, shapes
from tests.tensor.table.draws import Row

_PARTS = (elementwise, reductions, shapes, choosing, linear)
ROWS: dict[str, Row] = {name: row for part in _PARTS for name, row in (getattr(part, "EXACT", {}) | part.CLOSE).items()}
CLOSE = {name for part in _PARTS for name in part.CLOSE}
# Results of these are any of several: they are tested by what they must hold, in the file that is named.
BY_PROPERTY = {
    "empty": "test_constants.py",
    "empty_like": "test_constants.py",
    "linalg.qr": "test_decompositions.py",
    "linalg.svd": "test_decompositions.py",
    "linalg.eig": "test_norms.py",
    "linalg.eigvals": "test_norms.py",
    "linalg.eigh": "test_decompositions.py",
    "apply_along_axis": "test_apply.py",
    "apply_over_axes": "test_apply.py",
    "vectorize": "test_apply.py",
    "datetime_as_string": "test_datetimes.py",
    "busday_count": "test_datetimes.py",
    "busday_offset": "test_datetimes.py",
    "is_busday": "test_datetimes.py",
    "ndenumerate": "test_ndenumerate.py",
    "isfortran": "test_attributes.py",
    "load": "test_npy.py",
    "save": "test_npy.py",
    "savez": "files/test_files.py",
    "savez_compressed": "files/test_files.py",
    "savetxt": "files/test_files.py",
    "fromfile": "files/test_files.py",
    "lib.stride_tricks.sliding_window_view": "test_apply.py",
}
