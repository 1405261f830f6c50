"""Machine models as data: one YAML file per machine, with source and certainty of every number."""
