"""Net files, those of ibsim and what ibnetdiscover prints: read them, and build nodes and ports from them."""
