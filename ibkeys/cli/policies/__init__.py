"""The commands about policies: editing by names, writing one from a fabric, and comparing two."""
