"""The HTML report: one self-contained page about one schedule.

    source.py     what the page is about: a schedule or program file, and what follows from it
    model.py      the page's data, ready for JSON; operations.py, memory.py, graph.py, proofs.py and
                  reasons.py make its parts
    page.py       data, template, style and scripts in one text
    assets/       the template, style and scripts

`page.html_report(text, file)` is all that a command needs: the text of a schedule or program file,
and the name of that file for messages.
"""
