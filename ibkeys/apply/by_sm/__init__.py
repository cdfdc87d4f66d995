"""The parts that all carriers through a subnet manager share: the wanted tables, the steps, the prediction, the proof,
and the journal's images."""
