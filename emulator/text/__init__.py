"""How numbers and records are written as text."""
