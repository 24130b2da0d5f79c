"""Sluice on a Ray cluster: the bridge between a coordinator and the cluster, and its hosts.

`python -m sluice_ray` is the bridge; `python -m sluice_ray.node` runs `sluice` on a node.
"""

# The same as that of the npm package, of which this is a part.
__version__ = "0.1.0"
