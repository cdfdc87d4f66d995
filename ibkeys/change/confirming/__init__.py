"""Changes that must be confirmed: waiting for the confirmation, and a guard process that rolls back if the waiting
process dies.
"""
