"""Hooks of batch systems. Importing them is quick: they run before every job."""
