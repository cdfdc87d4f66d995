"""Text commands for a simulated subnet: one line in, the result out."""
