"""Clusters: a queue and nodes under one scheduler, and the selections that say which nodes a job may have."""
