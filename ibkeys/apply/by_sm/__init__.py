"""What every carrier through a subnet manager does alike: what is wanted, steps, prediction, watch, the journal."""
