"""Arguments as Python text, drawn by the name that NumPy's signature gives to the parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.values import Drawing

Draw = Callable[[Drawing, Sequence[str]], str]

NUMBERS = ("0", "1", "2", "-1", "3", "0.5", "-2.0", "True", "1j", "300", "nan", "np.float32(1.5)", "np.int8(3)")
DTYPES = ("'f8'", "'f4'", "'f2'", "'i8'", "'i4'", "'u1'", "'?'", "'c16'", "'c8'", "float", "int", "'>f4'", "'>i2'", "str", "'U3'",
          "'M8[D]'", "'m8[s]'")  # fmt: skip
AXES = ("0", "0", "0", "-1", "-1", "-1", "1", "None", "None", "(0, 1)", "(0,)", "(1, 0)", "()", "2", "-2", "5")


def array(d: Drawing, names: Sequence[str]) -> str:
    """An array of the program, as it is or a view or a cast of it; now and then a list or a number."""
    name = d.one(*names)
    how = d.int(0, 19)
    if how < 11:
        return name
    views = ("{0}[::-1]", "{0}.T", "{0}[:1]", "{0}[None]", "{0}.astype('f4')", "{0} > {0}", "{0}[..., 0]", "{0}.ravel()")
    if how < 17:
        return d.one(*views).format(name)
    return d.one("[1, 2, 3]", "[[1.5, 2.0], [0.0, -1.0]]", "[]", "3", "2.5", "[True, False]", *NUMBERS)


def arrays(d: Drawing, names: Sequence[str]) -> str:
    """A sequence of arrays."""
    inner = ", ".join(array(d, names) for _ in range(d.int(1, 3)))
    return d.one(f"[{inner}]", f"({inner},)", d.one(*names))


def number_or_array(d: Drawing, names: Sequence[str]) -> str:
    """A number in half of the draws."""
    return d.one(*NUMBERS) if d.int(0, 1) else array(d, names)


def _of(*texts: str) -> Draw:
    return lambda d, names: d.one(*texts)


def _mask(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    return d.one("True", "False", f"{name} == {name}", f"{name}.astype(bool)", "[True, False]", f"{name} > 1", name)


def _out(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    return d.one("None", name, f"{name}[::-1]", f"np.zeros_like({name})", f"np.zeros({name}.shape)", f"({name},)", f"{name}.T")


def _positions(d: Drawing, names: Sequence[str]) -> str:
    name = d.one(*names)
    return d.one("0", "1", "[0, 0]", "[1, 0, -1]", "[[0], [1]]", "slice(1)", "[]", "9", f"{name}.argsort()", f"{name} > 1", name)


def _callable(d: Drawing, names: Sequence[str]) -> str:
    return d.one("np.sum", "np.cumsum", "np.sort", "np.mean", "len", "lambda x: x[::-1]")


_FLAG = _of("True", "False")
_INT = _of("0", "1", "2", "-1", "3", "None")
_SHAPE = _of("3", "(2, 3)", "()", "(0,)", "(2, -1)", "-1", "(4, 1)", "[2, 2]", "6", "(1, 2, 3)")

BY_NAME: dict[str, Draw] = {
    "axis": _of(*AXES), "axes": _of("None", *AXES, "[(0,), (0,), (0,)]", "([0], [1])", "(1, 2, 0)"), "axis1": _of("0", "1", "-1"),
    "axis2": _of("0", "1", "-1"), "axisa": _of("0", "-1"), "axisb": _of("0", "-1"), "axisc": _of("0", "-1"),
    "dtype": _of("None", *DTYPES), "out": _out, "where": _mask, "order": _of("'K'", "'C'", "'F'", "'A'", "None"),
    "casting": _of("'same_kind'", "'unsafe'", "'safe'", "'no'", "'equiv'"), "keepdims": _FLAG, "initial": _of("0", "1", "-3", "2.5", "nan", "None"),
    "n": _of("1", "2", "3", "0", "5", "None", "-1"), "shape": _SHAPE, "newshape": _SHAPE, "new_shape": _SHAPE, "k": _INT, "norm": _of("None", "'ortho'",
    "'forward'", "'bad'"), "weights": lambda d, names: d.one("None", array(d, names)), "copy": _of("True", "False", "None"),
    "s": _of("None", "(2,)", "(2, 3)", "(3, 2)"), "mode": _of("'raise'", "'wrap'", "'clip'", "'full'", "'same'", "'valid'", "'constant'", "'edge'",
    "'reflect'", "'reduced'", "'complete'", "'linear_ramp'", "'symmetric'", "'mean'", "'maximum'"), "offset": _INT, "N": _of("1", "3", "4"),
    "arrays": arrays, "tup": arrays, "arys": arrays, "args": arrays, "xi": arrays, "operands": arrays, "choicelist": arrays, "condlist": arrays,
    "choices": arrays, "overwrite_input": _FLAG, "indices_or_sections": _of("1", "2", "3", "[1]", "[1, 2]", "0", "[0, 9]"), "ddof": _of("0", "1",
    "9", "0.5"), "correction": _of("0", "1", "9"), "bins": lambda d, names: d.one("10", "3", "[0, 1, 2.5]", "[2, 1]", "'auto'", "1", d.one(*names)),
    "kind": _of("None", "'stable'", "'quicksort'", "'heapsort'", "'bad'"), "rtol": _of("1e-05", "0", "nan"), "atol": _of("1e-08", "1", "0"),
    "equal_nan": _FLAG, "start": number_or_array, "stop": number_or_array, "step": _of("1", "2", "-1", "0.5", "0"), "num": _of("5", "1", "0",
    "3", "-1"), "endpoint": _FLAG, "retstep": _FLAG, "base": _of("10.0", "2", "[2, 3]"), "count": _of("-1", "2"), "indices": _positions,
    "ind": _positions, "obj": _positions, "kth": _of("0", "1", "-1", "(0, 1)", "9"), "values": number_or_array, "vals": number_or_array,
    "val": number_or_array, "v": number_or_array, "q": _of("0.5", "[0.25, 0.75]", "0", "1", "50", "[]", "2.0", "np.float32(0.5)", "[[0.1], [0.9]]"),
    "method": _of("'linear'", "'lower'", "'nearest'", "'midpoint'", "'hazen'", "'inverted_cdf'", "'weibull'", "'bad'"), "range": _of("None", "(0, 3)",
    "(1, 1)", "(3, 0)", "(-1.0, 2.5)"), "density": _of("None", "True", "False"), "assume_unique": _FLAG, "condition": _mask, "mask": _mask,
    "subok": _of("True", "False"), "ndmin": _of("0", "2", "4"), "ord": _of("None", "1", "2", "-1", "np.inf", "-np.inf", "'fro'", "'nuc'", "0", "3"),
    "hermitian": _FLAG, "rcond": _of("None", "1e-3", "0.5"), "tol": _of("None", "1e-3"), "deg": _of("0", "1", "2", "-1"), "decimals": _of("0", "1",
    "-1", "2"), "optimize": _of("False", "True"), "default": number_or_array, "fill_value": number_or_array, "sparse": _FLAG, "indexing": _of("'xy'",
    "'ij'"), "bitorder": _of("'big'", "'little'"), "include_initial": _FLAG, "UPLO": _of("'L'", "'U'"), "rowvar": _FLAG, "bias": _FLAG,
    "right": _of("True", "False", "None", "0"), "left": _of("None", "-1", "nan"), "period": _of("None", "2", "3.5", "0"), "stable": _of("None", "True"),
    "nan": number_or_array, "posinf": _of("None", "9", "1e3"), "neginf": _of("None", "-9"), "a_min": number_or_array, "a_max": number_or_array,
    "min": number_or_array, "max": number_or_array, "source": _of("0", "-1", "(0, 1)", "5"), "destination": _of("0", "-1", "(1, 0)"),
    "reps": _of("2", "(2, 2)", "0", "(1, 2, 1)", "[]", "-1"), "repeats": lambda d, names: d.one("2", "0", "[1, 2, 3]", "-1", "[2]", d.one(*names)),
    "func1d": _callable, "func": _callable, "window_shape": _of("2", "(2, 2)", "0", "9", "1"), "writeable": _FLAG, "dimensions": _SHAPE, "dims": _SHAPE,
    "prepend": number_or_array, "append": number_or_array, "to_end": number_or_array, "to_begin": number_or_array, "wrap": _FLAG,
    "full_matrices": _FLAG, "compute_uv": _FLAG, "upper": _FLAG, "returned": _FLAG, "minlength": _of("0", "3", "9", "-1"), "side": _of("'left'",
    "'right'"), "sorter": lambda d, names: d.one("None", f"{d.one(*names)}.argsort()"), "pad_width": _of("1", "(1, 2)", "((1, 0), (0, 2))", "0", "-1",
    "[[2, 1]]", "7"), "trim": _of("'fb'", "'f'", "'b'", "'x'"), "shift": _of("1", "-2", "0", "(1, 2)", "100"), "edge_order": _of("1", "2", "3"),
    "dx": _of("1.0", "2", "0.5"), "discont": _of("None", "1.0"), "increasing": _FLAG, "full": _of("False"), "cov": _of("False"), "invert": _FLAG,
    "return_index": _FLAG, "return_inverse": _FLAG, "return_counts": _FLAG, "return_indices": _FLAG, "sorted": _FLAG, "ndim": _INT,
    "varargs": number_or_array, "device": _of("None", "'cpu'"), "like": _of("None"), "unit": _of("'D'", "'s'", "'auto'"), "beta": _of("0", "8.6"),
    "M": _of("0", "1", "5"), "typechars": _of("'bf'"), "m": array, "scale": number_or_array, "roll": _of("'raise'", "'forward'"),
    "offsets": _of("1", "-3"), "weekmask": _of("'1111100'"), "mask_func": _of("np.tril", "np.triu"), "d": _of("1.0", "0.5"),
    "fweights": _of("None", "[1, 2, 3]"), "aweights": _of("None", "[1.0, 0.5, 2]"), "sep": _of("''", "'-'"), "nbytes": _INT,
    "start_or_stop": number_or_array, "multi_index": lambda d, names: d.one(*names), "new_order": _of("'C'"), "max_work": _of("None"),
}  # fmt: skip
NEVER = {"signature", "buffer", "strides", "prototype", "kwargs", "kwds", "kw", "file"}


def argument(d: Drawing, parameter: str, names: Sequence[str]) -> str:
    """An argument for a parameter of this name; an array for names that are not listed."""
    if d.rarely(60):
        return d.one("None", "-1", "'x'", "1.5", "()")
    return BY_NAME.get(parameter, array)(d, names)
