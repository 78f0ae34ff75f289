"""How a user's function is called, and what becomes of its errors."""
