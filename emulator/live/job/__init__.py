"""`emulator-job`: a program that does a known amount of work and proves it. See `docs/live-torque.md`."""
