"""Positions of the pixels of a region, as histograms over cells. [Section *Positional Embedding*, `tab:kernelpos`]"""
