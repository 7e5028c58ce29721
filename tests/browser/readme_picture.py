"""Takes the pictures of README: `python -m tests.browser.readme_picture [FOLDER]`, docs/images when none is given.

A real JupyterLab in a real Chromium runs a cell on the first notebook's photograph; the pictures are taken meanwhile.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser.harness import ROOT, NotebookPage, running_browser, running_lab

LOAD = """import numpy as np
from sklearn.datasets import load_sample_images
%load_ext jmars
china, flower = load_sample_images().images
sensor = np.random.default_rng(2024)
exposures = np.lib.format.open_memmap(
    "exposures.npy", mode="w+", dtype="float32", shape=(384, *china.shape))  # 1.2 GB
for exposure in exposures:
    exposure[:] = china + 40 * sensor.standard_normal(china.shape, dtype="float32")"""

RUN = """%%jmars -w 2 --memory 400MiB --chunk 32MiB
stack = np.load("exposures.npy", mmap_mode="r")
picture = stack.mean(axis=0)
noise = (stack - picture).std(axis=0)
brightest = stack.max(axis=0)
noise.mean()"""


def main() -> None:
    """Both themes, part of the way through the cell."""
    into = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images"
    into.mkdir(parents=True, exist_ok=True)
    settings = {"JMARS_DISPLAY": "widget"}
    with (
        tempfile.TemporaryDirectory() as folder,
        running_browser() as browser,
        running_lab(Path(folder), settings) as lab,
    ):
        for theme in ("light", "dark"):
            lab.write("stacking.ipynb", [LOAD, RUN])
            with NotebookPage.opened(browser, lab, "stacking.ipynb", width=1100, height=900) as notebook:
                notebook.theme(theme)
                notebook.command("application:toggle-left-area")
                notebook.run(0, wait=True)
                notebook.run(1)
                bar = notebook.view(1).get_by_role("progressbar")
                bar.wait_for(timeout=20_000)
                while int(bar.get_attribute("aria-valuenow") or 0) < 45:
                    notebook.page.wait_for_timeout(20)
                (into / f"cell-{theme}.png").write_bytes(notebook.page.screenshot())
                notebook.wait_until_idle()


if __name__ == "__main__":
    main()
