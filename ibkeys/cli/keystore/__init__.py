"""The commands of `ibkeys keystore`, by what they do with the key store."""
