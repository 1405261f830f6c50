"""Programs executed: unrolled into events for given trip counts, on barriers as hardware has them.

The proof's third method, the interpreter and pictures of programs execute by it. They decide which
of the events that are ready comes next, and what an event does.
"""
