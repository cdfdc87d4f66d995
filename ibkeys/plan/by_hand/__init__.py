"""A plan as steps for a person, for subnet managers on hosts that cannot be reached: what to type, what must show."""
