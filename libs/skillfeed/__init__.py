"""skillfeed: personalized skill routing as batch and serving jobs on Ray."""

import os

# OpenMP threads (FAISS, PyTorch) that spin while they wait take the cores from others: on busy ones training an index
# took many times as long. Read once when OpenMP loads, hence here, before anything else is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
