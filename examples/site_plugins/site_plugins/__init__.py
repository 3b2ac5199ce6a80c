"""One small plug-in of each kind. Each module stands alone: it is also a file for `--plugin`."""
