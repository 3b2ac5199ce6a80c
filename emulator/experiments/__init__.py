"""The papers' experiments and their claims, as data."""
