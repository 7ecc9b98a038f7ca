"""One HTML file that tells what runs showed: self-contained, interactive, printable.

``page`` renders it, ``run_facts`` says what a run's timeline shows, ``run_figure`` draws that,
``runs`` makes the part about one run, ``places`` the one about a fleet, ``sweeps`` those about a
sweep or comparison.
"""
