"""The atlas of a paper: its claims in all worlds that agree with what it prints about its inputs."""
