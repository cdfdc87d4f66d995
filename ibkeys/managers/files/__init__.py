"""Files of OpenSM that a change replaces while OpenSM runs: finding and replacing them, the users who can read them,
and temporary files that an interrupted run left."""
