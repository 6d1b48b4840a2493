"""Sharing in a real browser: links, languages, embedding, traces, files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from playground import traces
from playground.compare import Comparison
from playground.ui.files import shipped
from tests.ui.traces import result
from tests.visitor import Visitor

pytestmark = pytest.mark.browser

LINK = (
    "?lang=en&prompt=Name+a+colour.&pair=chat&max_new_tokens=5&seed=3&temperature=0.5&top_p=0.9"
    "&runs=plain%3Dsample&runs=a%5C%2C+b%3Dspeculative%2Cverifier%3Dtypical%2Ctypical_epsilon%3D0.2"
    "&repeats=2&x=speedup&y=target_logprob&baseline=a%2C+b"
)


def query_of(visitor: Visitor) -> dict[str, list[str]]:
    return parse_qs(urlsplit(visitor.tab.url).query)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace file of two runs with hostile labels."""
    found = {"<b>one</b>": result("sample"), "two": result("mentored")}
    comparison = Comparison("Why?", found, {k: [0.5] for k in found}, "<b>one</b>")
    path = tmp_path / "trace.json"
    path.write_text(traces.dump(comparison, {"prompt": "Why?"}), "utf-8")
    return path


def upload(visitor: Visitor, path: Path) -> None:
    with visitor.tab.expect_file_chooser() as chooser:
        visitor.tab.click("#upload")
    chooser.value.set_files(str(path))


def test_a_link_restores_the_setup_and_runs_it(context: Any, page_url: str) -> None:
    """Case 64; the address of the page that it opens is that link."""
    visitor = Visitor(context, page_url, LINK + "&run=1")
    visitor.wait_done(2)
    assert visitor.runs() == ["plain", "a, b"]
    assert visitor.titles()[:2] == ["Plain", "A, b · γ 4 · ε 0.2 · δ 0.3"]
    visitor.wait_value("#prompt textarea", "Name a colour.")
    for name, value in {
        "max_new_tokens": "5",
        "temperature": "0.5",
        "typical_epsilon": "0.2",
    }.items():
        assert visitor.tab.locator(f"#param-{name} input").input_value() == value
    assert visitor.tab.locator("#view-baseline input").input_value() == "A, b"
    assert "speed-up" in visitor.tab.locator("#chart .xtitle").text_content()
    assert "ln p" in visitor.tab.locator("#chart .ytitle").text_content()
    visitor.tab.locator("#prompt textarea").fill("Name a fruit.")
    visitor.tab.wait_for_function("location.search.includes('fruit')")
    wanted = parse_qs(LINK.replace("colour", "fruit").removeprefix("?"))
    assert query_of(visitor) == wanted
    assert visitor.errors == []


def test_a_fresh_page_keeps_its_short_address_until_somebody_changes_it(visitor: Visitor) -> None:
    assert urlsplit(visitor.tab.url).query == "__theme=light"
    visitor.set("seed", 7)
    visitor.tab.wait_for_function("location.search.includes('seed=7')")
    visitor.tab.get_by_role("tab", name="About").click()
    visitor.tab.wait_for_function("location.search.includes('tab=about')")
    assert query_of(visitor)["__theme"] == ["light"]


@pytest.mark.parametrize("query", ["?temperature=hot", "?runs=a%3Dnope", "?tab=%3Cimg%20src=x%3E"])
def test_a_corrupt_link_gives_one_message_and_the_page_as_usual(
    context: Any, page_url: str, query: str
) -> None:
    """Cases 60 and 64."""
    visitor = Visitor(context, page_url, query)
    assert "is not allowed" in visitor.toast()
    assert visitor.tab.locator("[data-testid=toast-body]").count() == 1
    assert visitor.tab.locator("[data-testid=toast-body] img").count() == 0
    assert len(visitor.titles()) == 5
    assert visitor.errors == []


def test_copy_link_and_embed_give_working_addresses(context: Any, page_url: str) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor = Visitor(context, page_url)
    visitor.set("seed", 11)
    visitor.tab.wait_for_function("location.search.includes('seed=11')")
    visitor.tab.click("[data-do=link]")
    link = visitor.tab.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{page_url}/?lang=en&prompt=") and "seed=11" in link
    assert "__theme" not in link
    visitor.tab.click("[data-do=embed]")
    frame = visitor.tab.locator("[data-snippet=iframe]").input_value()
    assert f'<iframe src="{page_url}/?lang=en&amp;prompt=' in frame and "embed=1" in frame
    component = visitor.tab.locator("[data-snippet=component]").input_value()
    assert "gradio.js" in component and f'<gradio-app src="{page_url}/"' in component
    visitor.tab.locator("[data-do=snippet]").first.click()
    assert visitor.tab.evaluate("navigator.clipboard.readText()") == frame
    visitor.tab.keyboard.press("Escape")
    assert not visitor.tab.locator("#embed-dialog").is_visible()
    assert visitor.errors == []


@pytest.mark.parametrize("tab", ["lab", "compare"])
def test_an_embedded_panel_stands_alone_in_the_theme_asked_for(
    phone: Any, page_url: str, tab: str
) -> None:
    visitor = Visitor(phone, page_url, f"?embed=1&tab={tab}&__theme=dark")
    panel = {"lab": "#lab-source", "compare": "#prompt"}[tab]
    visitor.tab.locator(panel).wait_for()
    for hidden in ("h1", "#tabs [role=tab]", "[data-do=embed]", ".gradio-container > * > footer"):
        assert not any(found.is_visible() for found in visitor.tab.locator(hidden).all()), hidden
    assert visitor.tab.evaluate("document.body.classList.contains('dark')")
    assert visitor.tab.evaluate("document.documentElement.scrollWidth") <= 375
    assert visitor.errors == []


def test_the_theme_button_turns_the_page_dark(visitor: Visitor) -> None:
    visitor.tab.click("[data-do=theme]")
    assert visitor.tab.evaluate("document.body.classList.contains('dark')")
    assert query_of(visitor)["__theme"] == ["dark"]


def test_the_browser_s_language_decides_and_the_switch_is_remembered(
    chromium: Any, page_url: str
) -> None:
    context = chromium(375, 800, "zh-CN")
    visitor = Visitor(context, page_url, "?seed=5")
    assert visitor.tab.locator("h1").inner_text() == "解码游乐场"
    assert visitor.tab.evaluate("document.documentElement.lang") == "zh-CN"
    visitor.wait_value("#param-seed input", "5")
    visitor.tab.click("[data-language=en]")
    visitor.tab.locator("h1", has_text="Decoding Playground").wait_for()
    visitor.wait_value("#param-seed input", "5")
    visitor.open(page_url)
    assert visitor.tab.locator("h1").inner_text() == "Decoding Playground"
    visitor.open(f"{page_url}/?lang=zh")
    assert visitor.tab.locator("#run").inner_text() == "运行"
    assert visitor.errors == []
    context.close()


def test_a_trace_opens_without_a_run_and_saves_again(
    visitor: Visitor, trace: Path, tmp_path: Path
) -> None:
    """Cases 60 and 79."""
    upload(visitor, trace)
    visitor.tab.wait_for_selector("[data-run='two'][data-state=recorded]")
    assert visitor.runs() == ["<b>one</b>", "two"]
    assert visitor.tab.locator("#cards b:not(.dp-key), #table b").count() == 0
    assert "Recorded" in visitor.tab.locator("#status").inner_text()
    assert visitor.tab.locator("#prompt textarea").input_value() == "Why?"
    visitor.wait_chart()
    saved = {}
    for kind in ("png", "svg", "csv", "json"):
        with visitor.tab.expect_download() as download:
            visitor.tab.click(f"#save-{kind}")
        saved[kind] = tmp_path / f"saved.{kind}"
        download.value.save_as(saved[kind])
    assert saved["png"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in saved["svg"].read_text("utf-8")
    assert [row["label"] for row in csv.DictReader(saved["csv"].open())] == ["<b>one</b>", "two"]
    comparison, _ = traces.load(saved["json"].read_bytes())
    assert list(comparison.results) == ["<b>one</b>", "two"]
    assert visitor.errors == []


@pytest.mark.parametrize("content", ["{}", "no JSON", json.dumps({"format": "../x"}), "[" * 50_000])
def test_a_bad_trace_gets_one_message_and_nothing_changes(
    visitor: Visitor, tmp_path: Path, content: str
) -> None:
    """Case 79."""
    before = visitor.states()
    path = tmp_path / "bad.json"
    path.write_text(content)
    upload(visitor, path)
    assert visitor.toast().startswith("trace: ")
    assert visitor.states() == before


def test_a_shipped_trace_shows_before_any_run_and_others_open_at_once(visitor: Visitor) -> None:
    if not shipped():
        pytest.skip("no trace ships yet")
    assert set(visitor.states()) == {"recorded"}
    visitor.tab.click("#shipped input")
    options = visitor.tab.locator("[role=option]")
    assert options.count() == len(shipped())
    options.last.click()
    visitor.wait_chart()
    assert set(visitor.states()) == {"recorded"}
    assert visitor.errors == []
