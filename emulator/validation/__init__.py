"""The laws that every run keeps."""
