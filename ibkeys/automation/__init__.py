"""Changes of a whole fabric by a script: planned, made by a method, proven, and resumed from the journal."""
