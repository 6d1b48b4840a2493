"""Rows -> Plotly figures. Neither torch nor gradio."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go


def speed_fidelity(rows: list[dict[str, Any]]) -> go.Figure:
    figure = go.Figure()
    return figure
