"""The loop that carries events to decisions, the mechanisms' interface, and runs in virtual time."""
