"""Paint of a drawing: what a renderer makes of the shapes, and the colours and layers that follow from it."""
