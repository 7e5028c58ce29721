"""Tests of jmars; docs/CONTRIBUTING.md says how to run them."""
