"""`python3 -m tests.cluster`: the test bed's commands."""

import sys

from tests.cluster.cli import main

sys.exit(main())
