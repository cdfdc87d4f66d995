"""NVIDIA UFM over REST: its partitions read and changed, its settings of the subnet manager as states."""
