"""Options files that get keys while their OpenSM runs: which they are, who reads along, what was left beside them."""
