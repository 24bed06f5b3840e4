"""Results: stored as lines of JSON, and found again by problem and way."""

from pathlib import Path

from inference_ways import PREDICTED, WAYS
from workers import Row, add_row, read_rows

RESULTS = "inference.jsonl"
Rows = dict[str, dict[str, Row]]


def known_rows(out: Path) -> Rows:
    """Return the stored rows by problem and way, in the order of their tables; later rows replace earlier ones."""
    rows = {(row["problem"], row["way"]): row for row in read_rows(out / RESULTS)}
    ordered = {problem: {way: rows[problem, way] for way in WAYS if (problem, way) in rows} for problem in PREDICTED}
    return {problem: found for problem, found in ordered.items() if found}


def keep_row(out: Path, row: Row) -> None:
    """Store a row at once, and print a line about it."""
    add_row(out / RESULTS, row)
    print(f"{row['problem']}: {row['way']} {row.get('error', 'measured')}", flush=True)


def missing_ways(known: dict[str, Row], parts: list[str], weights: str, device: str) -> list[str]:
    """List the ways of some parts that have not been measured with the present weights on such a device."""

    def is_known(name: str, row: Row) -> bool:
        elsewhere = WAYS[name].part == "gpu" and bool(row.get("gpu")) != (device == "cuda")
        return "error" not in row and row.get("weights") == weights and not elsewhere

    return [name for name, way in WAYS.items() if way.part in parts and not is_known(name, known.get(name, {}))]


def without_trials(rows: Rows) -> Rows:
    """Leave out ways for a GPU that were tried out on a CPU."""

    def is_trial(row: Row) -> bool:
        return WAYS[row["way"]].part == "gpu" and not row.get("gpu") and "error" not in row

    return {problem: {way: row for way, row in found.items() if not is_trial(row)} for problem, found in rows.items()}


def rows_of(part: str, rows: Rows) -> list[Row]:
    """List the rows of a part that did not fail."""
    return [row for row in measured(rows) if WAYS[row["way"]].part == part]


def measured(rows: Rows) -> list[Row]:
    """List the rows that did not fail."""
    return [row for found in rows.values() for row in found.values() if "error" not in row]


def one_and_many(row: Row) -> tuple[Row, Row]:
    """Return the measurements of one case and of many."""
    return row["batches"][0], row["batches"][-1]


def machines(rows: list[Row]) -> str:
    """Name the machines that rows were measured on."""
    names = {f"{row['gpu']}, {row['machine']}" if WAYS[row["way"]].part == "gpu" else row["machine"] for row in rows}
    return " and ".join(sorted(names))


def models(rows: Rows) -> dict[str, Row]:
    """Return for each problem a row that says which model was measured."""
    return {row["problem"]: row for row in measured(rows)}


def failures(rows: Rows) -> list[str]:
    """List what failed."""
    failed = [row for found in rows.values() for row in found.values() if "error" in row]
    lines = [f"- {row['problem']}, {row['way']}: {row['error']}" for row in failed]
    return ["## Not measured", "\n".join(lines)] if lines else []
