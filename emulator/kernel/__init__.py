"""The compiled heart: tables of a cluster's state, its queue, its passes, and how they are compiled."""
