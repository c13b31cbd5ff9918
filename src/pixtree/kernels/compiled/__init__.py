"""Twins in numba, for the CPU: a file and a function for each definition that is worth it. `kernels.twins` lists them."""
