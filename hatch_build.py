"""What the wheel needs built beside the front end: the C library, where there is a compiler.

Without one the wheel has no library and is the same for every machine; plans are then made by Python and sines by
NumPy, and the build says so in a line. JMARS_NATIVE=0 asks for such a wheel. An editable install gets the library in
the tree.
Source: decision 0013.
"""

from __future__ import annotations

import os
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel."""

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
        machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{machine}"
