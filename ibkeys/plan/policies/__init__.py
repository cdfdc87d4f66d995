"""Policies and fabrics: writing the policy that describes a fabric, and comparing two policies on one."""
