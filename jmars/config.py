"""The settings of this process, and the folders that jmars uses.

`config` holds the settings; the switches of the five documents are under `task.default_config`.
Source: docs/explanation/seeds.md, "Configuration".
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from jmars.errors import ClusterError, SettingError
from jmars.switches import TASK_DEFAULTS, checked, load_settings
from jmars.units import parse_bytes

__all__ = ["TASK_DEFAULTS", "VIEWS", "Config", "cache_dir", "checked_schedulers", "config", "runtime_dir"]

MOST_SCHEDULERS = 16  # of a cluster
REUSE = ("on", "off", "fresh")
OUTPUT = ("show", "off")
VIEWS = ("full", "line", "none")  # how the view of a cell begins


class Config:
    """Settings of this process; assigning an unknown setting raises AttributeError.

    Examples
    --------
    >>> with config.using(display="none"):
    ...     config.display
    'none'
    """

    def __init__(self) -> None:
        self.task: dict[str, Any] = TASK_DEFAULTS
        # "", none, text or widget; "" or auto chooses by the front end, and off is none
        self.display: str = os.environ.get("JMARS_DISPLAY", "")
        self.view: str = os.environ.get("JMARS_VIEW", "")  # one of VIEWS; "": a line that opens for long jobs
        self.chunk_size_limit: int = 128 * 2**20  # bytes of one chunk where no chunk_size is given
        # predicted seconds of a value that is computed in this process; 0: none is (client/local_runs.py)
        self.local_seconds: float = _variable("JMARS_LOCAL_SECONDS", 0.05, _seconds)
        # bytes of a tensor that another library takes as a NumPy array (tensor/from_array.py): from
        # `array_warning` on with a warning; beyond `array_limit` an error, where 0 is half of the free memory
        self.array_warning: int = _variable("JMARS_ARRAY_WARNING", 256 * 2**20, parse_bytes)
        self.array_limit: int = _variable("JMARS_ARRAY_LIMIT", 0, parse_bytes)
        # processes that schedule the clusters that are started here; 0: their control process does
        self.schedulers: int = _variable("JMARS_SCHEDULERS", 0, _schedulers)
        # whether values of earlier runs are used: on, off, or fresh, where all is computed and kept for later runs
        self.reuse: str = _chosen("reuse", os.environ.get("JMARS_REUSE", "on"), REUSE)
        # whether lines that functions print on the cluster are shown: show or off (client/job_output.py)
        self.output: str = _chosen("output", os.environ.get("JMARS_OUTPUT", "show"), OUTPUT)
        self.combine_size: int = 4  # chunks that one step of a tree reduction combines

    def __setattr__(self, name: str, value: Any) -> None:
        if "combine_size" in self.__dict__ and name not in self.__dict__:
            raise AttributeError(f"jmars.config has no setting {name!r}; it has {', '.join(sorted(self.__dict__))}")
        value = {"off": "none", "auto": ""}.get(value, value) if name == "display" else value
        if name in ("reuse", "output"):
            value = _chosen(name, value, REUSE if name == "reuse" else OUTPUT)
        super().__setattr__(name, _Switches(checked(value)) if name == "task" else value)

    def load(self, settings: Mapping[str, Any] | str | Path) -> None:
        """Sets switches from a mapping, YAML text or the path of a YAML file, as `jmars.switches.load_settings` reads
        them.

        Raises
        ------
        SettingError
            If a switch does not exist or cannot have the value; no switch changes then.
        """
        self.task = self.task | load_settings(settings)

    @contextmanager
    def using(self, **settings: Any) -> Iterator[Config]:
        """Changes settings within a `with` block."""
        before = {name: getattr(self, name) for name in settings}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)


class _Switches(dict[str, Any]):
    """A dict of switches that checks each assignment: `config.task["fuse"] = "chain"`."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, checked({name: value})[name])

    def update(self, *others: Any, **named: Any) -> None:
        """Sets all switches, or none if a value is wrong."""
        super().update(checked(dict(*others, **named)))


def _chosen(name: str, value: str, words: tuple[str, ...]) -> str:
    if value not in words:
        raise SettingError(f"{name} cannot be {value!r}; choose one of {', '.join(words)}")
    return value


Value = TypeVar("Value")


def _variable(name: str, default: Value, read: Callable[[str], Value]) -> Value:
    """The value that a variable of the environment gives; raises SettingError if `read` raises ValueError."""
    text = os.environ.get(name)
    try:
        return read(text) if text else default
    except ValueError as error:
        raise SettingError(f"{name}: {error}, or unset it") from None


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not value >= 0:
        raise ValueError(f"{text!r} is not a number of seconds; set a number from 0 on")
    return value


def checked_schedulers(number: Any) -> int:
    """A number of schedulers; raises ValueError for others."""
    if not isinstance(number, int) or not 0 <= number <= MOST_SCHEDULERS:
        raise ValueError(f"schedulers is {number!r}; give a whole number from 0 to {MOST_SCHEDULERS}")
    return number


def _schedulers(text: str) -> int:
    return checked_schedulers(int(text) if text.isdecimal() else text)


config = Config()


def runtime_dir() -> Path:
    """The folder with a registry file per running cluster: private to the user, mode 0700, made when missing.

    `$JMARS_RUNTIME_DIR`, else `$XDG_RUNTIME_DIR/jmars`, else `~/.local/share/jmars/runtime`.

    Raises
    ------
    ClusterError
        If the folder belongs to another user or others may enter it.
    """
    given = os.environ.get("JMARS_RUNTIME_DIR")
    session = os.environ.get("XDG_RUNTIME_DIR")
    if given:
        path = Path(given)
    elif session and os.access(session, os.W_OK):
        path = Path(session) / "jmars"
    else:
        path = Path.home() / ".local" / "share" / "jmars" / "runtime"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path)
    return path


def cache_dir() -> Path:
    """The folder for learnt costs and GPU kernels: private to the user, mode 0700, made when missing; safe to delete.

    `$JMARS_CACHE_DIR`, else `$XDG_CACHE_HOME/jmars`, else `~/.cache/jmars`.

    Raises
    ------
    OSError
        If the folder cannot be made, or there is no home folder to make it in.
    ClusterError
        If the folder belongs to another user or others may enter it.
    """
    given, shared = os.environ.get("JMARS_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    try:
        path = Path(given) if given else (Path(shared) if shared else Path.home() / ".cache") / "jmars"
    except RuntimeError as error:
        raise OSError("there is no home folder for learnt costs; set JMARS_CACHE_DIR to a private folder") from error
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(path, "JMARS_CACHE_DIR")
    return path


def check_private(path: Path, variable: str = "JMARS_RUNTIME_DIR") -> None:
    """Raises ClusterError if another user owns or can enter a folder; `variable` is the setting to change."""
    status = path.lstat()
    if status.st_uid != os.getuid() or path.is_symlink():
        raise ClusterError(f"{path} belongs to another user or is a link; remove it or set {variable}")
    if status.st_mode & 0o077:
        raise ClusterError(f"others may enter {path}; run `chmod 700 {path}` or set {variable} to a private folder")
