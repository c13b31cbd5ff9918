"""Paint of a drawing: what a renderer makes of the shapes, and the colours, gradients and layers that follow from it."""
