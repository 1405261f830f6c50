"""The spec files shipped with schedgen."""
