"""The names and types of what the view shows."""

import json
from pathlib import Path

from jmars.notebook.run_state import RunState
from jmars.notebook.view import TRAITS, as_json, typescript

VIEW_TS = Path(__file__).parents[2] / "labextension" / "src" / "model" / "view.ts"


def test_the_front_end_has_the_same_names_and_types():
    assert VIEW_TS.read_text() == typescript(), "run `python -m jmars.notebook.view`"


def test_a_picture_is_all_traits_and_goes_as_json():
    picture = RunState().picture(0.0)
    assert tuple(picture) == TRAITS
    json.dumps(as_json(picture))
