"""Pictures of schedules: text for terminals so far; HTML, SVG and traces are to come."""
