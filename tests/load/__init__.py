"""A crowd on a page: is everybody served right, in turn, and at a bounded cost of memory?"""
