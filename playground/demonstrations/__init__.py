"""What the lessons show, run on the product's own code: decoding, cache, rules, solver.

Small inputs in, plain records of `playground.lessons` out, in well under a second each.
"""
