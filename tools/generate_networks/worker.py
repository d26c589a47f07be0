"""Convert network after network in one process: importing the toolkit takes longer than a job.

Runs in the toolkit's own Python. Each line of the standard input is the path of a job in JSON; each
answer is a line, too. The toolkit prints to the standard error.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "rknn_runtime" / "conversion"))


def main() -> None:
    """Answer until the input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
        from runner import do

        for line in sys.stdin:
            job = json.loads(Path(line.strip()).read_text("utf-8"))
            result = do(job, lambda step: None)
            print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main()
