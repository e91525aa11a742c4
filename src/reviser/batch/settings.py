"""Settings of a batch job that the command line shows in its help.

They are apart from `job`, so that `reviser --help` does not import what reads and writes chunks.
"""

from typing import Literal

Backend = Literal["local", "ray"]
"""Where workers run: on this machine, or on a Ray cluster."""
FILE_CHUNK, FOLDER_CHUNK = 64, 1000
"""Documents per chunk. 64 are the rows that the engine on this machine runs at a time, so a file
with smaller chunks would be slower, and one with larger chunks lose more when it is killed."""
