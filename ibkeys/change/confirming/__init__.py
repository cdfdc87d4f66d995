"""Changes that must be confirmed: waiting for the confirmation, and the guardian, a child process that rolls back
if the waiting process dies.
"""
