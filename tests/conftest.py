"""Random tests draw the same cases every time: CI must not fail on a change that is not to blame.

``HYPOTHESIS_PROFILE=explore pytest ...`` looks for new ones.
"""

import os
import tempfile

from hypothesis import settings

settings.register_profile("repeat", derandomize=True, database=None)
settings.register_profile("explore", max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

# No test reads what a user's commands kept, or leaves anything there; commands of one run share.
_KEPT = tempfile.TemporaryDirectory(prefix="schedgen-tests-")
os.environ["SCHEDGEN_CACHE_DIR"] = _KEPT.name
