"""Functions that become operators: what they declare, how they are called, how they are pickled."""
