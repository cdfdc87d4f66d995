"""Making a plan true on the fabric, finishing what was cut off, going back."""
