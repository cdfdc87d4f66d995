"""Hardening a fabric with OpenSM alive: from what an audit finds to one plan of several steps, each with a way back."""
