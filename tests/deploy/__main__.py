"""Every check of the deployment files, a line each: `python -m tests.deploy`. The exit code is 1 when one fails. A
check whose tool is missing is skipped; with `--strict` that is a failure too.
"""

from __future__ import annotations

import sys

from tests.deploy import chart, files
from tests.deploy.tools import Missing, Wrong


def main() -> int:
    failed = missing = 0
    for check in (*chart.CHECKS, *files.CHECKS):
        try:
            print(f"ok    {check.__name__:26} {check()}", flush=True)
        except Wrong as wrong:
            failed += 1
            print(f"WRONG {check.__name__:26} {wrong}", flush=True)
        except Missing as tool:
            missing += 1
            print(f"skip  {check.__name__:26} {tool}", flush=True)
    return 1 if failed or (missing and "--strict" in sys.argv) else 0


sys.exit(main())
