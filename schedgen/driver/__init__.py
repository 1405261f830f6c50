"""What runs the stages one after the other: from a spec to a schedule, a proven program, a kernel,
and its execution.
"""
