"""What a run leaves behind: jobs, runs, moves of nodes, leases, and the tables in which they are kept."""
