"""Programs: what the GPU executes, and how synchronization is derived."""
