"""Engines: Dask and Ray clusters as workers of jmars; groups of operands are the engine's tasks."""
