"""SM_Key and SA_Key of the subnet managers: new ones on all their hosts at once, through OpenSM."""
