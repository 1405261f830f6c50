"""CuTe DSL files from proven programs: emitters for operations, and a harness around them."""
