"""The plugins of every test run, the notebooks' included. Fixtures are in tests/conftest.py."""

pytest_plugins = ["tests.running", "tests.leaks", "pytester"]
