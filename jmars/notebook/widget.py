"""The live view under a cell, as a widget.

`JobView` holds the view's data in its traits, so that a reloaded page shows it again, and passes clicks on to
callbacks. The page's side is labextension/src/widgets.
Source: anywidget, https://anywidget.dev.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import anywidget
import traitlets

from jmars.notebook.sampler import Frame
from jmars.notebook.static_view import summary
from jmars.notebook.view import TRAITS, Picture

STATIC = Path(__file__).parent / "static"  # written by `npm run build:widget` in labextension/


def is_stale(sources: Path = Path(__file__).parents[2] / "labextension", built: Path = STATIC) -> bool:
    """Whether the built front end is of other sources than those of this checkout; False where either is missing."""
    noted = built / "sources.sha256"  # written by labextension/widget.build.mjs
    if not noted.exists() or not (sources / "src").exists():
        return False
    digest = hashlib.sha256()
    files = [file for folder in ("src", "style") for file in (sources / folder).rglob("*")]
    names = {file.relative_to(sources).as_posix(): file for file in files if file.suffix in (".ts", ".js", ".css")}
    for name in sorted(names):
        digest.update(f"{name}\n".encode() + names[name].read_bytes())
    return digest.hexdigest() != noted.read_text(encoding="utf-8").strip()


def _built(name: str) -> str:
    """The text of a built front-end file; empty if the file was not built."""
    path = STATIC / name
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _code() -> str:
    """The view's module, which brings its style along; empty if the front end was not built."""
    code, style = _built("widget.js"), _built("widget.css")
    brings = f"document.head.appendChild(document.createElement('style')).textContent = {json.dumps(style)};"
    return f"{code}\n{brings}\n" if code else ""


_CODE = _code()
_LOADER = """// Imports the view once for a page, which keeps each module for ever.
async function imported(packed) {
  const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  const code = new Blob([await new Response(text).arrayBuffer()], { type: 'text/javascript' });
  return import(URL.createObjectURL(code));
}
export default {
  async render(context) {
    const id = context.model.get('_module_id');
    const views = (globalThis.jmarsViews ??= new Map());
    if (!views.has(id)) views.set(id, imported(context.model.get('_module')));
    return (await views.get(id)).default.render(context);
  }
};
"""


def _trait(kind: Any) -> Any:
    """The trait of a field of `Picture`: empty at first, None for records and what may be missing."""
    trait: Any = {bytes: traitlets.Bytes(b""), str: traitlets.Unicode("")}.get(kind)
    trait = trait or (traitlets.List([]) if get_origin(kind) is list else traitlets.Dict(None, allow_none=True))
    return trait.tag(sync=True)


class JobView(anywidget.AnyWidget):
    """The view of a cell's jobs.

    Parameters
    ----------
    on_cancel
        Called when Cancel is clicked, with the id of the job that the page shows. May run on any thread.
    on_background
        Called when "To background" is clicked.
    on_answer
        Called with the number of the frame drawn and whether the page is hidden: `Sampler.answered`.
    picture
        The first frame.
    output
        {"parent": id of the message that ran the cell, "display": display id}: a reloaded page finds the cell's outputs
        by them.

    Raises
    ------
    FileNotFoundError
        If the front end was not built.
    """

    _esm = _LOADER
    _module = traitlets.Bytes(gzip.compress(_CODE.encode(), mtime=0)).tag(sync=True)  # packed, as each cell sends it
    _module_id = traitlets.Unicode(hashlib.sha256(_CODE.encode()).hexdigest()).tag(sync=True)
    job_id: str
    snap: Any
    kernel: Any
    hosts: Any
    locals().update({name: _trait(kind) for name, kind in get_type_hints(Picture).items()})  # the class's namespace
    output: Any = traitlets.Dict(None, allow_none=True).tag(sync=True)  # the cell's message and the view's display id
    frame = traitlets.Int(0).tag(sync=True)  # number of the newest frame; the page sends it back

    def __init__(
        self,
        on_cancel: Callable[[str], None] | None = None,
        on_background: Callable[[], None] | None = None,
        on_answer: Callable[[int, bool], None] | None = None,
        picture: Frame | None = None,
        output: dict[str, str] | None = None,
    ) -> None:
        self.check()
        super().__init__(output=output, **(picture or {}))
        self._on_cancel, self._on_background, self._on_answer = on_cancel, on_background, on_answer
        self.on_msg(self._asked)

    def close(self) -> None:
        """Close the widget and its layout, a widget of its own that ipywidgets would keep for ever."""
        layout = self.layout
        super().close()
        if layout is not None:
            layout.close()
        self._on_cancel = self._on_background = self._on_answer = None  # a widget stays until cycles are collected

    @classmethod
    def check(cls) -> None:
        """Raises FileNotFoundError if the front end was not built."""
        if not _CODE:
            raise FileNotFoundError(
                f"{STATIC / 'widget.js'} is missing, so the live view cannot be shown; install jmars with pip, "
                "or run `jlpm && jlpm build:prod` in labextension/"
            )

    def show(self, frame: Frame) -> None:
        """Draws `frame`: all traits go in one message."""
        with self.hold_sync():
            for name, value in frame.items():
                if name in TRAITS or name == "frame":
                    setattr(self, name, value)

    def _asked(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        """Handles a click, or the answer that a frame has been drawn."""
        kind = content.get("type")
        if kind == "cancel" and self._on_cancel:
            self._on_cancel(str(content.get("job") or self.job_id))
        elif kind == "background" and self._on_background:
            self._on_background()
        elif kind == "answer" and self._on_answer:
            self._on_answer(int(content.get("frame") or 0), bool(content.get("hidden")))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if bundle is not None else ({}, {})
        text = summary(self.snap, self.kernel, self.hosts) if self.snap else "jmars: no job yet"
        return dict(data) | {"text/plain": text}, dict(metadata)
