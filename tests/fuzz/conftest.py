"""Statements run in this process, operand by operand."""

from tests.tensor.conftest import engine

__all__ = ["engine"]
