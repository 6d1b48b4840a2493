"""The arithmetic of the lessons: pure functions and records, a file each.

What needs a model or a tensor is run by `playground.demonstrations`, on the product's own code, and
handed in as plain data.
"""
