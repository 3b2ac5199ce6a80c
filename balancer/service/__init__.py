"""What the service does: one writer, readers, the reconciler, timers, calls to the batch system and the cloud."""
