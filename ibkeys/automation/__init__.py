"""Changes of a whole fabric by a script: planned, made by a method, proven, and taken up again from the journal."""
