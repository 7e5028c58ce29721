"""`jupyter nbconvert --to html`: the picture of a run is in the page, and a `%%jmars` cell is coloured as Python."""

from __future__ import annotations

import importlib
import json
import tomllib
from pathlib import Path

import nbformat
import pytest
from nbconvert import HTMLExporter
from pygments.lexers import LEXERS
from pygments.token import Keyword
from traitlets.config import Config

from jmars.notebook.lexer import JmarsLexer
from jmars.notebook.static_view import final_bundle
from tests.notebook.test_static_view import finished, picture_of

ROOT = Path(__file__).parents[2]
CELL = "%%jmars -w 2 --memory 512MiB\nfor i in range(3):\n    x = x + 1"


def test_flags_and_python_have_their_colours():
    tokens = [(str(kind).removeprefix("Token."), text) for kind, text in JmarsLexer().get_tokens(CELL)]
    assert ("Name.Attribute", "--memory") in tokens and ("Literal.Number", "512MiB") in tokens
    assert ("Keyword", "for") in tokens and ("Name.Builtin", "range") in tokens
    assert "".join(text for _, text in tokens).strip() == CELL
    assert (Keyword, "for") in list(JmarsLexer().get_tokens("for i in x: pass"))  # a cell without the magic


def test_pygments_finds_the_lexer_by_its_entry_point():
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pygments.lexers"]
    module, name = named["jmars"].split(":")
    assert getattr(importlib.import_module(module), name) is JmarsLexer


@pytest.fixture
def page(monkeypatch) -> str:
    """The notebook as a page, also where the checkout was installed before it had the entry point."""
    monkeypatch.setitem(LEXERS, "JmarsLexer", ("jmars.notebook.lexer", "jmars cell", ("jmars",), (), ()))
    notebook = nbformat.v4.new_notebook(metadata={"language_info": {"name": "python", "pygments_lexer": "ipython3"}})
    output = nbformat.v4.new_output("display_data", data=json.loads(json.dumps(final_bundle(picture_of(finished())))))
    notebook.cells = [nbformat.v4.new_code_cell(CELL, outputs=[output])]
    settings = Config({"HighlightMagicsPreprocessor": {"languages": {"%%jmars": "jmars"}}})
    return HTMLExporter(config=settings).from_notebook_node(notebook)[0]


def test_the_graph_stays_in_the_page(page):
    image = final_bundle(picture_of(finished()))["text/html"].split("base64,")[1].split('"')[0]
    assert page.count(image) == 1


def test_the_cell_is_coloured(page):
    assert '<span class="k">for</span>' in page and '<span class="na">--memory</span>' in page
