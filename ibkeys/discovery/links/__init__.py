"""Links: the evidence for a link from the port before it and from the SA, and whether the link is still as it was
proven."""
