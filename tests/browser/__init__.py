"""Tests in a browser; a package, so that fixtures of its conftest.py can live as long as its tests."""
