"""Completes the flags of `%%jmars` and the subcommands of `%jmars`, with the names of running clusters.

`candidates` decides from the text before the cursor; `add_completion` registers it with IPython.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult, context_matcher
from IPython.core.interactiveshell import InteractiveShell

from jmars.actors import registry
from jmars.config import VIEWS
from jmars.notebook.flags import flag_names

__all__ = ["SUBCOMMANDS", "add_completion", "candidates", "remove_completion"]

SUBCOMMANDS = ("status", "why", "stop", "plan", "trace", "connect")
PLACES = ("dask://", "ray://", "ssh://")
_MAGICS = ("%%jmars", "%jmars")
_ASSIGNED = re.compile(r"^\w+\s*=\s*(?=%j)")  # as in "cluster = %jmars connect night"


def candidates(text: str, clusters: Callable[[], list[str]]) -> list[str]:
    """Words that may stand at the end of a `%%jmars` or `%jmars` line.

    Parameters
    ----------
    text
        The line up to the cursor.
    clusters
        Gives the names of running clusters; called only where a name may stand.

    Examples
    --------
    >>> candidates("%%jmars --me", list)
    ['--memory']
    >>> candidates("%jmars st", list)
    ['status', 'stop']
    >>> candidates("%%jmars --on ni", lambda: ["night"])
    ['night']
    """
    magic, *words = _ASSIGNED.sub("", text).split(" ")
    if magic not in _MAGICS or not words:
        return []
    *before, word = (one for one in words if one or one is words[-1])
    if magic == "%jmars":
        found = list(SUBCOMMANDS) if not before else clusters() if before == ["connect"] else []
    else:
        last = before[-1] if before else ""
        if last == "--on":
            found = [*clusters(), *PLACES]
        elif last == "--view":
            found = list(VIEWS)
        elif last in _WITH_VALUE:
            found = []
        else:
            found = [flag for flag in flag_names() if flag not in before]
    return [one for one in found if one.startswith(word)]


_WITH_VALUE = ("-w", "--workers", "--memory", "--chunk", "-o", "--output")


@context_matcher(identifier="jmars")  # type: ignore[untyped-decorator]
def _match(context: CompletionContext) -> SimpleMatcherResult:
    """The matcher for IPython's completer; where it finds words, Python's names are not offered."""
    found = candidates(context.text_until_cursor.lstrip(), _clusters)
    return {"completions": [SimpleCompletion(one, type="param") for one in found], "suppress": True, "ordered": True}


def add_completion(shell: InteractiveShell) -> None:
    """Completes lines of our magics in `shell`."""
    remove_completion(shell)  # of `%reload_ext jmars`
    shell.Completer.custom_matchers = [*shell.Completer.custom_matchers, _match]


def remove_completion(shell: InteractiveShell) -> None:
    """Removes what `add_completion` added."""
    kept = [one for one in shell.Completer.custom_matchers if one is not _match]
    shell.Completer.custom_matchers = kept


def _clusters() -> list[str]:
    return sorted({entry.name for entry in registry.entries()})
