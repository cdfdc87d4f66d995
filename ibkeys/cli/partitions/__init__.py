"""Commands about P_Keys and partitions."""
