"""The checks of `ibkeys doctor`: devices and files of this host, the local port, its subnet manager, and the stores."""
