"""Configuration of Sphinx, which builds these pages: `.ci/docs`.

Warnings are errors: broken links, pages outside the navigation, docstrings that are not reStructuredText.
"""

import re
from typing import Any, ClassVar

import numpy as np
from IPython.lib.lexers import IPython3Lexer
from pygments.lexer import using
from sphinx.application import Sphinx

import jmars
from jmars.notebook.lexer import JmarsLexer

project = "jmars"
author = "the jmars developers"
version = release = jmars.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "changelog.d"]  # lines for the next version, which no page shows yet
suppress_warnings = ["ref.python"]  # a word in a type, such as "shape", that is the name of several members
default_role = "code"  # docstrings write code as these pages do: between single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = False

html_theme = "furo"
html_static_path = ["static"]
html_title = f"jmars {version}"
html_show_copyright = False


class CellLexer(JmarsLexer):
    """Python as in notebooks: magics, and `%%jmars` cells."""

    tokens: ClassVar = JmarsLexer.tokens | {"root": [JmarsLexer.tokens["root"][0], (r"(?s).+", using(IPython3Lexer))]}


def add_menu(app: Sphinx, page: str, text: list[str]) -> None:
    """The navigation below a section's index has the pages that the index links to, in its order."""
    if page.endswith("/index"):
        pages = re.findall(r"\]\(([\w./-]+)\.md\)", text[0])
        below = [name for name in dict.fromkeys(pages) if not name.startswith("..")]
        text[0] += "\n\n:::{toctree}\n:hidden:\n" + "\n".join(below) + "\n:::\n"


def skip_numpys_own(app: Sphinx, what: str, name: str, member: Any, skip: bool, options: object) -> bool | None:
    """`jmars.tensor` passes on NumPy's dtypes, constants, and functions with NumPy's texts: NumPy documents them."""
    text = getattr(getattr(np, name.rpartition(".")[2], None), "__doc__", None)
    of_numpy = str(getattr(member, "__module__", "")).split(".")[0] == "numpy"
    return True if of_numpy or (text and text == member.__doc__) else None


def drop_file_list(app: Sphinx, what: str, name: str, member: Any, options: object, lines: list[str]) -> None:
    """Docstrings of packages list their files for readers of the source."""
    if what == "module":
        of_files = re.compile(r"In reading order|- |[\w/]+(/|\.py)[: ]|\w+ {2,}\S")
        del lines[next((i for i, line in enumerate(lines) if of_files.match(line)), len(lines)) :]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.add_lexer("python", CellLexer)
    app.add_lexer("py", CellLexer)
    app.connect("autodoc-skip-member", skip_numpys_own)
    app.connect("autodoc-process-docstring", drop_file_list)
    app.connect("source-read", add_menu)
    app.add_css_file("long-lines.css")
