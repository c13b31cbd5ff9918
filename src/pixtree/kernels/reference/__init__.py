"""Definitions in plain torch, for any device: what is true. `kernels.definitions` lists them."""
