"""Planning the tables of ports: the index of each P_Key in the table of an end port, and the table of its leaf port."""
