"""What windows hold, by columns: groups of rows, and what a function makes of them."""
