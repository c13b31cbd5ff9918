"""Building a tree: every region picks its most similar neighbour, round by round."""
