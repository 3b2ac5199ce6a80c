"""What all layers write alike: numbers, lines of JSON, why a file was refused."""
