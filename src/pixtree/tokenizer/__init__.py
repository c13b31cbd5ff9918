"""The learned part: from images to tokens, one file per section of the paper."""

from pixtree.tokenizer.tokenizer import Options, Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.tokenizer.weights import from_release, load_weights, save_weights, shipped_weights

__all__ = ["Options", "Tokenizer", "Tokens", "from_release", "load_weights", "save_weights", "shipped_weights"]
