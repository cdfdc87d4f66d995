"""What a terminal is: how wide, with colour or without. Lines and tables are made to fit it."""
