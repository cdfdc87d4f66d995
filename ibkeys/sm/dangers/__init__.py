"""What is dangerous about the subnet managers that are there, each with what it means and what to do about it."""
