"""Changes of a whole subnet by a script: planned, made by a method, proven, and taken up again from the journal."""
