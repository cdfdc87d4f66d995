"""Reading net files of ibsim and the output of ibnetdiscover, and building nodes and ports from them."""
