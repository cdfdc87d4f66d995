"""Pictures of partitions: bars and a matrix as SVG, the map of a fabric as SVG or as a Graphviz graph. The functions
return text, without I/O.

The colours suit colour-blind readers, and a letter, shape or number always repeats the meaning of a colour.
"""
