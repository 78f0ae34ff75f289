"""What the ``keystate`` command runs."""
