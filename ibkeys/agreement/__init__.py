"""Comparing the policy, the subnet manager's file, its SA and the nodes: which of them differ, and the causes."""
