"""The functions that a remote user may name in a document are those of travelling.txt, and no others."""

import importlib
import inspect
from pathlib import Path

from jmars.web.call_document import MODULES
from jmars.web.operand_document import _INNER, _functions

LIST = Path(__file__).with_name("travelling.txt")


def travelling() -> list[str]:
    """Functions of ours that a document may name, as file:name."""
    found = []
    for file in sorted(MODULES | _INNER):
        module = importlib.import_module(f"jmars.tensor.ops.{file}")
        names = [name for name, one in vars(module).items() if inspect.isfunction(one)]
        found += [f"{file}:{name}" for name in sorted(names) if _functions(f"{module.__name__}:{name}") is not None]
    return found


def test_a_function_travels_once_somebody_has_said_so():
    listed = LIST.read_text().split()
    new = sorted(set(travelling()) - set(listed))
    assert not new, (
        f"a remote user may call {', '.join(new)}: list functions that only compute with arrays in {LIST.name}, "
        "and others in STAYING (jmars/web/operand_document.py)"
    )
    assert listed == travelling(), "functions that do not travel any more leave the list"
