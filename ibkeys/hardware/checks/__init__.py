"""The checks of a real fabric, by subject. Each of them only reads."""
