"""The HTML page of `schedgen race`: its findings, and what two warps did around each.

page.py       the page from the command's report as JSON has it
timeline.py   the tables of steps
assets/       template, style (on top of that of the report about schedules) and script
"""
