"""Connected pieces of label maps."""
