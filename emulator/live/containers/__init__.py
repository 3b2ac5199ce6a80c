"""The live fleet in containers: the same programs as on one machine, each in a container of its own."""
