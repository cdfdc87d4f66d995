"""From a policy and a fabric to a plan: the wanted P_Key tables, their order, and the plan as a document."""
