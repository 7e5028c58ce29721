"""The contract that all ways to run operands keep; a package, so that its clusters end with its last test."""
