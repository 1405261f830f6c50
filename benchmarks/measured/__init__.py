"""Speed of generated kernels beside their peers: what `schedgen bench` and scripts here measure."""
