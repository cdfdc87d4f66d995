"""A plan as a script for a person, for subnet managers on hosts that ibkeys cannot reach: the commands to type, and the
P_Keys that ports must show after each step."""
