"""Writing a plan as a script for a person, where ibkeys cannot reach the host of the subnet manager. It has the
commands to type, and the P_Keys that ports must show after each step."""
