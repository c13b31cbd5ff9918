"""Kernels on tokens: from pixels to the features, samples, positions and clusters of regions; values have gradients."""
