"""Functions on arrays that know nothing of learning, in two backends with the same names and the same results.

`reference` is plain torch, runs on any device and is the definition of truth; `compiled` is numba on the CPU and equal to it bit
for bit. What is sequential by nature is written once, in `sequential`: the reference interprets it, numba compiles it.
"""
