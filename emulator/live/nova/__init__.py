"""`live.ondemand: nova`: a real Nova and a real Placement, unmodified, as the on-demand manager of a live run."""
