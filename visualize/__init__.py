"""Pictures of schedules and programs: text, HTML, SVG, Perfetto traces, Graphviz."""
