"""What a function is told: the runtime context in ``open``, the context of each row."""
