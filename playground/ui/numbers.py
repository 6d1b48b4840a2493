"""Numbers as the page shows them: three significant digits, a unit, "–" for none."""

from __future__ import annotations

from playground.charts import three

NONE = "–"


def plain(value: float | None) -> str:
    """Three significant digits."""
    return NONE if value is None else three(value)


def decimals(value: float) -> str:
    """Three decimals, as a table has them, with a true minus sign."""
    return "−∞" if value == float("-inf") else f"{value:.3f}".replace("-", "−")


def times(value: float | None) -> str:
    """A ratio: "1.42×"."""
    return NONE if value is None else f"{three(value)}×"


def percent(value: float | None) -> str:
    """A share in percent."""
    return NONE if value is None else f"{three(100 * value)} %"


def rough(value: float | None) -> str:
    """A probability in percent, where it is too small to matter how small."""
    return "< 0.01 %" if value is not None and 0 < value < 1e-4 else percent(value)


def count(value: int | None) -> str:
    """A whole number, all its digits."""
    return NONE if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """A duration with its unit, milliseconds where it is short."""
    if value is None:
        return NONE
    if value < 0.1:
        return f"{three(1000 * value)} ms"
    return f"{three(value)} s"


def speed(value: float | None) -> str:
    """Tokens per second."""
    return NONE if value is None else f"{three(value)} tok/s"
