"""The account of running jobs: what a mechanism may do to them, what it costs, and what is done by when."""
