"""SVG text of a drawing: path data and the document around it."""
