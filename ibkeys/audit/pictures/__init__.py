"""Pictures of partitions: bars and a matrix as SVG, a fabric as a Graphviz graph. Text out, no I/O.

Colours are told apart by colour-blind people too, and none says anything that a letter, a shape or a number does not.
"""
