"""Who can talk to whom: from the P_Key tables and from what the switches enforce."""
