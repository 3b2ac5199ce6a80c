"""Runs whose log does not fit into memory: read, scheduled and written in blocks."""
