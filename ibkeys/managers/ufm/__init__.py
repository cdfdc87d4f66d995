"""NVIDIA UFM over REST: reading and changing its partitions, and reading its settings of the subnet manager."""
