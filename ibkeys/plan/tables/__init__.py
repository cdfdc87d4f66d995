"""The tables of a plan: the index of each P_Key in a port's table, and the table of its leaf port."""
