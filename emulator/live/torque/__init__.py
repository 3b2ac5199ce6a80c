"""A batch server that speaks Torque: the commands, their output and the behaviour recorded from real Torque."""
