"""The learned part: from images to tokens, one file per section of the paper."""
