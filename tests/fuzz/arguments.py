"""Arguments as Python text, drawn by the name that NumPy's signature gives to the parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.values import Drawing

Draw = Callable[[Drawing, Sequence[str]], str]

NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-2.0", "True", "1j", "300", "nan", "np.float32(1.5)", "np.int8(3)")
VIEWS = ("{0}[::-1]", "{0}.T", "{0}[:1]", "{0}[None]", "{0}.astype('f4')", "{0} > {0}", "{0}[..., 0]", "{0}.ravel()")
LITERALS = ("[1, 2, 3]", "[[1.5, 2.0], [0.0, -1.0]]", "[]", "3", "2.5", "[True, False]", *NUMBERS)
NEVER = {"signature", "buffer", "strides", "prototype", "kwargs", "kwds", "kw", "file", "typeset", "sorter", "subok"}

CHOICES = """
axis: 0 | 0 | 0 | -1 | -1 | -1 | 1 | None | None | (0, 1) | (0,) | (1, 0) | () | 2 | -2 | 5
axes: None | 0 | -1 | (0, 1) | (1, 0) | (1, 2, 0) | ([0], [1]) | [(0,), (0,), (0,)] | () | 5
axis1 axis2 axisa axisb axisc: 0 | 1 | -1
source destination: 0 | -1 | (0, 1) | (1, 0) | 5
shape newshape new_shape dimensions dims: 3 | (2, 3) | () | (0,) | (2, -1) | -1 | (4, 1) | [2, 2] | 6 | (1, 2, 3)
dtype: None | 'f8' | 'f4' | 'f2' | 'i8' | 'i4' | 'u1' | '?' | 'c16' | 'c8' | float | str | 'U3' | 'M8[D]' | 'm8[s]'
order: 'K' | 'C' | 'F' | 'A' | None
casting: 'same_kind' | 'unsafe' | 'safe' | 'no' | 'equiv'
keepdims overwrite_input density assume_unique hermitian sparse include_initial rowvar bias subok: True | False
equal_nan endpoint retstep increasing full_matrices compute_uv upper returned invert writeable: True | False
return_index return_inverse return_counts return_indices sorted wrap optimize copy: True | False
initial: 0 | 1 | -3 | 2.5 | nan | None
n: 1 | 2 | 3 | 0 | 5 | None | -1
k offset ndim: 0 | 1 | 2 | -1 | 3 | None
norm: None | 'ortho' | 'forward' | 'bad'
s: None | (2,) | (2, 3) | (3, 2)
mode: 'raise' | 'wrap' | 'clip' | 'full' | 'same' | 'valid' | 'constant' | 'edge' | 'reflect' | 'reduced' | 'mean'
N: 1 | 3 | 4
M: 0 | 1 | 5
indices_or_sections: 1 | 2 | 3 | [1] | [1, 2] | 0 | [0, 9]
ddof correction: 0 | 1 | 9 | 0.5
kind: None | 'stable' | 'quicksort' | 'heapsort' | 'bad'
rtol atol tol rcond: None | 1e-05 | 0 | 0.5 | 1
num: 5 | 1 | 0 | 3 | -1
step: 1 | 2 | -1 | 0.5 | 0
base: 10.0 | 2 | [2, 3]
count: -1 | 2
kth: 0 | 1 | -1 | (0, 1) | 9
q: 0.5 | [0.25, 0.75] | 0 | 1 | 50 | [] | 2.0 | np.float32(0.5) | [[0.1], [0.9]]
method: 'linear' | 'lower' | 'nearest' | 'midpoint' | 'hazen' | 'inverted_cdf' | 'weibull' | 'bad'
range: None | (0, 3) | (1, 1) | (3, 0) | (-1.0, 2.5)
ndmin: 0 | 2 | 4
ord: None | 1 | 2 | -1 | np.inf | -np.inf | 'fro' | 'nuc' | 0 | 3
deg: 0 | 1 | 2 | -1
decimals: 0 | 1 | -1 | 2
indexing: 'xy' | 'ij'
bitorder: 'big' | 'little'
UPLO: 'L' | 'U'
right: True | False | None | 0
left: None | -1 | nan
period: None | 2 | 3.5 | 0
stable: None | True
posinf: None | 9 | 1e3
neginf: None | -9
reps: 2 | (2, 2) | 0 | (1, 2, 1) | [] | -1
window_shape: 2 | (2, 2) | 0 | 9 | 1
minlength: 0 | 3 | 9 | -1
side: 'left' | 'right'
pad_width: 1 | (1, 2) | ((1, 0), (0, 2)) | 0 | -1 | [[2, 1]] | 7
trim: 'fb' | 'f' | 'b' | 'x'
shift: 1 | -2 | 0 | (1, 2) | 100
edge_order: 1 | 2 | 3
dx d: 1.0 | 2 | 0.5
discont: None | 1.0
full cov: False
device: None | 'cpu'
like max_work: None
unit: 'D' | 's' | 'auto'
beta: 0 | 8.6
typechars: 'bf'
roll: 'raise' | 'forward'
timezone: 'naive' | 'UTC'
ndmax: 2 | 64
offsets: 1 | -3
weekmask: '1111100'
mask_func: np.tril | np.triu
fweights: None | [1, 2, 3]
aweights: None | [1.0, 0.5, 2]
sep: '' | '-'
func1d func: np.sum | np.cumsum | np.sort | np.mean | len | lambda x: x[::-1]
"""


def array(d: Drawing, names: Sequence[str]) -> str:
    """An array of the program, as it is or a view or a cast of it; now and then a list or a number."""
    how = d.int(0, 19)
    if how < 11:
        return d.one(*names)
    return d.one(*VIEWS).format(d.one(*names)) if how < 17 else d.one(*LITERALS)


def arrays(d: Drawing, names: Sequence[str]) -> str:
    """A sequence of arrays."""
    inner = ", ".join(array(d, names) for _ in range(d.int(1, 3)))
    return d.one(f"[{inner}]", f"({inner},)", d.one(*names))


def number_or_array(d: Drawing, names: Sequence[str]) -> str:
    """A number in half of the draws."""
    return d.one(*NUMBERS) if d.int(0, 1) else array(d, names)


def _mask(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    return d.one("True", "False", f"{name} == {name}", f"{name}.astype(bool)", "[True, False]", f"{name} > 1", name)


def _out(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    fresh = f"np.zeros_like({name})", f"np.zeros({name}.shape)"
    return d.one("None", name, f"{name}[::-1]", *fresh, f"({name},)", f"{name}.T")


def _positions(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    fixed = ("0", "1", "[0, 0]", "[1, 0, -1]", "[[0], [1]]", "slice(1)", "[]", "9")
    return d.one(*fixed, f"{name}.argsort()", f"{name} > 1", name)


def _one_of(*texts: str) -> Draw:
    """One of these; an empty text stands for an array of the program."""
    return lambda d, names: d.one(*texts) or d.one(*names)


def _table() -> dict[str, Draw]:
    rows = [line.partition(": ") for line in CHOICES.strip().splitlines()]
    found = {name: _one_of(*choices.split(" | ")) for names, _, choices in rows for name in names.split()}
    for name in "arrays tup arys args xi operands choicelist condlist choices".split(" "):
        found[name] = arrays
    for name in "start stop values vals val v default fill_value nan a_min a_max min max prepend append".split(" "):
        found[name] = number_or_array
    for name in "to_end to_begin varargs start_or_stop scale".split(" "):
        found[name] = number_or_array
    found |= dict.fromkeys(("indices", "ind", "obj"), _positions) | dict.fromkeys(("where", "condition", "mask"), _mask)
    found |= {"out": _out, "m": array, "multi_index": _one_of("")}
    found["weights"] = _one_of("None", "", "[1, 2, 3]")
    found["bins"] = _one_of("10", "3", "[0, 1, 2.5]", "[2, 1]", "'auto'", "1", "")
    found["repeats"] = _one_of("2", "0", "[1, 2, 3]", "-1", "[2]", "")
    return found


BY_NAME = _table()


def argument(d: Drawing, parameter: str, names: Sequence[str]) -> str:
    """An argument for a parameter of this name; an array for names that are not listed."""
    if d.rarely(60):
        return d.one("None", "-1", "'x'", "1.5", "()")
    return BY_NAME.get(parameter, array)(d, names)
