"""The bars this project holds itself to. `make bar-NAME` measures one of them.

A bar prints what it measured, the limit, and the machine's load; its exit status says whether the
bar was met.
"""
