"""Pictures of partitions: bars and a matrix as SVG, a fabric as a Graphviz graph. Text out, no I/O.

The colours suit colour-blind readers, and a letter, shape or number always repeats the meaning of a colour.
"""
