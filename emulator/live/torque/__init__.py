"""A batch server that speaks Torque: its commands, their output, and how real Torque behaves."""
