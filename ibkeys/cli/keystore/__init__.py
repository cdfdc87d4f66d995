"""The commands of `ibkeys keystore`."""
