"""Definitions in plain torch, for any device; the compiled twins must agree with them. `kernels.definitions` lists them."""
