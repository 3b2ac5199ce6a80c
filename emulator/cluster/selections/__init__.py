"""What a cluster can choose nodes by, one module each."""
