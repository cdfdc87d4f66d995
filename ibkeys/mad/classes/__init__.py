"""The management classes with keys of their own: congestion control, baseboard management, and two classes of
NVIDIA."""
