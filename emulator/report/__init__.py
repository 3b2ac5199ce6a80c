"""What people see of a run: the results folder, the report, comparisons, progress."""
