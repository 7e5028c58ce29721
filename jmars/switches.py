"""The switches of `task.default_config`: their possible values, and how they are read.

`jmars.config` holds the switches of this process; a submission may have others (`with_extra`). No switch changes values
beyond their last bits (`jit`).
Source: docs/explanation/seeds.md, "Configuration"; Mars `deploy/oscar/base_config.yml`, `extra_config` of `TaskAPI`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jmars.errors import SettingError

__all__ = ["SWITCHES", "TASK_DEFAULTS", "checked", "load_settings", "with_extra"]

# Possible values of each switch, the default first; docs/reference/settings.md explains them.
SWITCHES: dict[str, tuple[Any, ...]] = {
    "optimize_tileable_graph": (True, False),
    "optimize_chunk_graph": (True, False),
    "fuse_enabled": (True, False),
    "fuse": ("region", "chain", "color"),
    "fuse_tileable": (True, False),
    "redraw": (True, False),
    "parts": (True, False),
    "kernels": ("auto", "numpy", "numexpr", "jit"),
    "jit": ("auto", "on", "fast", "off"),
    "order": ("auto", "mars", "dfs", "blevel", "level"),
    "prefer": ("lean", "fast", "memory"),
    "gpu": ("auto", "prefer", "only", "off"),
    "replan": (True, False),
    "push": (True, False),
    "dispatch": ("central", "late"),
    "ephemeral": (False, True),
    "retries": ("auto", *range(11)),
    "shards": tuple(range(1, 17)),
    "assigner": ("auto", "bfs", "dfs", "random", "bfs-v1", "ncd"),
}
TASK_DEFAULTS: dict[str, Any] = {name: values[0] for name, values in SWITCHES.items()}


def checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Checks settings and copies them to a dict.

    Raises
    ------
    SettingError
        If there is no such switch, or the switch cannot have the value.

    Examples
    --------
    >>> checked({"fuse": "region"})
    {'fuse': 'region'}
    >>> checked({"fuse": "all"})
    Traceback (most recent call last):
    jmars.errors.SettingError: task.default_config.fuse cannot be 'all'; choose one of region, chain, color
    """
    for name, value in settings.items():
        if name not in SWITCHES:
            raise SettingError(f"task.default_config has no {name!r}; it has {', '.join(sorted(SWITCHES))}")
        allowed = SWITCHES[name]
        if not any(type(value) is type(one) and value == one for one in allowed):
            choice = ", ".join(map(_word, allowed))
            raise SettingError(f"task.default_config.{name} cannot be {value!r}; choose one of {choice}")
    return dict(settings)


def with_extra(
    settings: Mapping[str, Any], extra_config: Mapping[str, Any] | None = None, fuse_enabled: bool | None = None
) -> dict[str, Any]:
    """The settings of a submission: `settings`, overridden by `fuse_enabled`, overridden by `extra_config`.

    Raises SettingError as `checked`.

    Examples
    --------
    >>> with_extra({"fuse": "chain", "fuse_enabled": True}, {"fuse": "region"}, fuse_enabled=False)
    {'fuse': 'region', 'fuse_enabled': False}

    Source: Mars `TaskAPI.submit_tileable_graph(graph, fuse_enabled=True, extra_config=None)`.
    """
    one = {} if fuse_enabled is None else {"fuse_enabled": fuse_enabled}
    return checked({**settings, **one, **(extra_config or {})})


def load_settings(source: Mapping[str, Any] | str | Path) -> dict[str, Any]:
    """Reads the switches in a mapping, a YAML text or a YAML file.

    Parameters
    ----------
    source
        `{"task": {"default_config": {...}}}`, the same as YAML text (anything with a line break or colon), or the path
        of a YAML file. Text without indentation, as printed in Mars's documentation, is read as if it were indented.

    Raises
    ------
    SettingError
        If the source has another shape, PyYAML is not installed, or a switch cannot have the value.

    Examples
    --------
    >>> load_settings({"task": {"default_config": {"fuse_enabled": False}}})
    {'fuse_enabled': False}
    """
    found = source if isinstance(source, Mapping) else _parsed(source)
    task = found.get("task", {})
    if task is None and "default_config" in found:  # indentation lost: task, default_config and the switches in a row
        inner = found["default_config"]
        flat = {name: value for name, value in found.items() if name not in ("task", "default_config")}
        task = {"default_config": flat if inner is None else inner}
    given = task.get("default_config", {}) if isinstance(task, Mapping) else task
    if not isinstance(given, Mapping):
        raise SettingError(f"task.default_config is {given!r}, not a mapping of switches; write `name: value` lines")
    return checked(given)


def _parsed(source: str | Path) -> Mapping[str, Any]:
    """Parses a YAML text or file."""
    try:
        import yaml  # not needed by anything else, and often there already
    except ImportError as error:
        raise SettingError("YAML needs PyYAML, which is not installed; pip install pyyaml, or give a dict") from error
    text = source if isinstance(source, str) and ("\n" in source or ":" in source) else Path(source).read_text("utf-8")
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SettingError(
            f"the settings are not YAML: {error}; see docs/reference/settings.md for an example"
        ) from error
    if not isinstance(found, Mapping):
        raise SettingError(f"the settings are {found!r}, not a mapping; begin with `task:`")
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else str(value).lower()
