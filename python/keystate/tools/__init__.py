"""The subcommands of ``keystate``."""
