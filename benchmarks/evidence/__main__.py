"""Write the pages of results from the records: `make report`, or `python benchmarks/evidence [--check]`."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evidence.report import PAGE, RESULTS, is_current, write_report


def main() -> None:
    """Write the pages, or compare them with the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="?", type=Path, default=RESULTS, help="folder of the records")
    parser.add_argument("-o", "--output", type=Path, default=PAGE, help="file of the page; long tables go to <name>_long.md")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
    options = parser.parse_args()
    if not options.check:
        write_report(options.results, options.output)
        print(f"wrote {options.output}")
    elif is_current(options.results, options.output):
        print(f"{options.output} is up to date")
    else:
        raise SystemExit(f"error: expected {options.output} to match the records, got another text; run make report")


if __name__ == "__main__":
    main()
