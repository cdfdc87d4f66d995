"""Planning from a policy and a fabric: the wanted P_Key tables, the order of writing, and the plan document."""
