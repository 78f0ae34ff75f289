"""Java as it is installed here, and archives of its classes."""
