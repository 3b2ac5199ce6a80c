"""Tables that others have published, row by row beside the emulator's figures: one YAML file a table."""
