"""The life of an operator, simulated: what may happen to it, and whether it does the same then."""
