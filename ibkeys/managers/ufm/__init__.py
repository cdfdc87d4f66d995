"""NVIDIA UFM over REST: reading and changing its partitions, and its settings of the subnet manager as states."""
