"""Comparing the policy, the subnet manager's file, its SA and the nodes: where they differ, which one and why."""
