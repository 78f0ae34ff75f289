"""Operator state: lists, maps and raw bytes of an instance, whole in every snapshot."""
