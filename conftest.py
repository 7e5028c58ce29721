"""The plugins of every test run, the notebooks' included. Fixtures are in tests/conftest.py."""

import os
import sys
from pathlib import Path

pytest_plugins = ["tests.running", "tests.leaks", "pytester"]

# Tests start some hundred interpreters. Where PYTHONDONTWRITEBYTECODE is set, each would compile all modules anew,
# half a second of CPU and more for each cluster; so compiled modules lie in the virtual environment.
if sys.dont_write_bytecode and sys.pycache_prefix is None and os.access(sys.prefix, os.W_OK):
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(sys.prefix) / "share" / "jmars-test-pycache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
