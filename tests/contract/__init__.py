"""Contracts: promises that several implementations keep."""
