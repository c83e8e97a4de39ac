"""How our token estimates compare with the counts of upstreams: docs/calibration.md.

`factor` is the running factor of one (upstream, model), `factors` holds those of all and the priors, `counts` remembers
what single conversations were counted at.
"""
