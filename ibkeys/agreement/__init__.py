"""Whether the policy, the file of the subnet manager, its SA and the nodes agree; where not, who differs and why."""
