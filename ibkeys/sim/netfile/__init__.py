"""Net files of ibsim and output of ibnetdiscover: reading them, and building nodes and ports from them."""
