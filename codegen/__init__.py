"""Home of the CuTe DSL emitters and their harness for each architecture; none is written yet."""
