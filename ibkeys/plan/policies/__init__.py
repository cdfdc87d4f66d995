"""Policies and fabrics: the policy that a fabric is as, and what two policies mean for one."""
