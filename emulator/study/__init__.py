"""Studies: an operator's question, answered from his own logs."""
