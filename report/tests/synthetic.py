"""SYNTHETIC result tables, in which no figure was ever measured.

One has the columns of `verbena bench rcud`; others are given as text.
"""

from __future__ import annotations

import csv
import io
import json

COLUMNS = next(
    csv.reader(
        [
            "experiment,mode,msg,window,iters,mops,gib,op,window_mode,device,mtu,posted,completed,"
            "delivered,lost,duplicated,reordered,"
            "spread,mops_low,mops_high,p50_us,p99_us,rtt_before_ns,rtt_after_ns,rtt_class,validity,reason,repetitions"
        ]
    )
)
SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
ENVIRONMENT = {
    "device": "vb_synthetic",
    "kind": "software",
    "note": "SYNTHETIC data made by a test; nothing was measured",
    "cpu": "none",
}


def row(mode: str, msg: int, window: int, window_mode: str, mops: float | None, **changes: str) -> dict[str, str]:
    cells = dict.fromkeys(COLUMNS, "")
    cells |= {
        "experiment": "msg_sweep",
        "mode": mode,
        "msg": str(msg),
        "window": str(window),
        "iters": "200000",
        "op": "send",
    }
    cells |= {"window_mode": window_mode, "device": "vb_synthetic", "mtu": "4096", "validity": "valid"}
    if mops is None:
        cells |= {"validity": "n/a", "reason": f"msg {msg} > UD max 4096"}
    else:
        lost = 1200 if mode == "UD" and window_mode == "local" else 0
        cells |= {
            "mops": repr(mops),
            "gib": repr(mops * 1e6 * msg / 2**30),
            "mops_low": repr(mops * 0.97),
            "mops_high": repr(mops * 1.02),
        }
        cells |= {"posted": "200000", "completed": "200000", "delivered": str(200000 - lost), "lost": str(lost)}
        cells |= {"duplicated": "0", "reordered": "0", "spread": "0.05"}
        cells |= {"p50_us": repr(window / mops), "p99_us": repr(1.7 * window / mops)} if mops else {}
        cells |= {"rtt_before_ns": "110", "rtt_after_ns": "112", "rtt_class": "near"}
        cells |= {"repetitions": ";".join(repr(mops * factor) for factor in (0.97, 0.99, 1.0, 1.01, 1.02))}
    return cells | changes


def rows() -> list[dict[str, str]]:
    """RC leads at window 64. At window 4 UD leads with local windows only."""
    table = []
    for window in (4, 64):
        for window_mode in ("local", "credit"):
            for msg in SIZES:
                rc = (9.0 if window == 4 else 16.0) / (1 + msg / 4000) * (1.0 if window_mode == "local" else 0.93)
                lead = 0.9 if window == 64 else 1.3 if window_mode == "local" else 1.0
                table.append(row("RC", msg, window, window_mode, rc))
                table.append(row("UD", msg, window, window_mode, None if msg > 4096 else rc * lead))
    return table


def csv_text(table: list[dict[str, str]] | None = None, environment: dict[str, str] | None = None) -> str:
    table = rows() if table is None else table
    lines = [",".join(COLUMNS)] + [",".join(cells[column] for column in COLUMNS) for cells in table]
    return "\n".join(lines + [f"# {key}: {value}" for key, value in (environment or ENVIRONMENT).items()]) + "\n"


def json_text() -> str:
    numbers = {"msg", "window", "iters", "mops", "gib", "mops_low", "mops_high", "delivered", "lost"}
    table = []
    for cells in rows():
        item: dict[str, object] = {
            key: (json.loads(text) if text else None) if key in numbers else text for key, text in cells.items()
        }
        item["repetitions"] = [
            {"mops": float(rate), "delivered": 1} for rate in cells["repetitions"].split(";") if rate
        ]
        table.append(item)
    return json.dumps({"environment": ENVIRONMENT, "rows": table})


def table_text(table: list[dict[str, object]], environment: dict[str, str]) -> str:
    """Return rows of any experiment as CSV, labelled as synthetic."""
    out = io.StringIO()
    writer = csv.DictWriter(out, table[0])
    writer.writeheader()
    writer.writerows(table)
    notes = environment | {"note": "SYNTHETIC data made by a test"}
    return out.getvalue() + "".join(f"# {key}: {text}\n" for key, text in notes.items())
