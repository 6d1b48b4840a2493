from __future__ import annotations

import dataclasses
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import playground as pg
from playground.types import Beam, Candidate, DecodeResult, SearchStep
from playground.ui.beam_tree import FEW, MAX_STEPS, beam_tree_html
from playground.ui.strings import ENGLISH, Words
from tests.test_api_contract import PROMPT, byte_level_tokenizer, target_and_draft
from tests.ui.traces import result

ASSETS = Path(__file__).parent.parent.parent / "assets"
EVIL = '<img src=x onerror=alert(1)>"&amp;'


def tree(*steps: SearchStep, beams: tuple[Beam, ...] = ()) -> DecodeResult:
    return dataclasses.replace(result("beam"), steps=steps, beams=beams)


def kept(parent: int, token: int, row: int | None, total: float = -1.0) -> Candidate:
    return Candidate(parent, token, total, total / 2, True, row is None, row, f" t{token}")


def pruned(parent: int, token: int, total: float = -9.0) -> Candidate:
    return Candidate(parent, token, total, total / 2, False, False, None, f" t{token}")


def beam(ids: list[int]) -> Beam:
    return Beam(ids, -0.5, -1.0, len(ids), True, "text")


# Two beams; row 1 of the first step wins, by a token that row 0 also tried.
SMALL = tree(
    SearchStep((kept(0, 5, 0), kept(0, 6, 1, -2.0), pruned(0, 7))),
    SearchStep((kept(0, 8, 0), kept(1, 8, None, -1234.5678), *(pruned(1, i) for i in range(4)))),
    beams=(beam([6, 8]), beam([5, 8])),
)


def nodes(html: str) -> list[tuple[set[str], dict[str, str]]]:
    """Classes and data of every candidate."""
    found = re.findall(r'<g class="(dp-node [^"]*)"([^>]*)>', html)
    return [
        (
            set(classes.split()),
            {k: unescape(v) for k, v in re.findall(r'data-(\w)="([^"]*)"', rest)},
        )
        for classes, rest in found
    ]


@cache
def searched(**params: Any) -> DecodeResult:
    target, draft = target_and_draft()
    pair = pg.ModelPair(target, draft, byte_level_tokenizer())
    return pg.decode(pair, PROMPT, params.pop("method", "beam"), **params)


@pytest.mark.parametrize("method", ["greedy", "mentored", "exact"])
def test_a_run_without_a_tree_says_so(method: str) -> None:
    html = beam_tree_html(result(method), ENGLISH)
    assert "<svg" not in html and "only beam searches have a tree" in html


def test_the_path_of_the_best_beam_is_marked_by_width_and_sign() -> None:
    html = beam_tree_html(SMALL, ENGLISH)
    won = [data["t"] for classes, data in nodes(html) if "dp-tree-win" in classes]
    assert won == [" t6", " t8"]
    assert html.count("★</text>") == 1


def test_every_candidate_knows_its_parent_and_both_scores() -> None:
    found = nodes(beam_tree_html(SMALL, ENGLISH))
    assert [data["p"] for _, data in found] == ["", "", "", "0", "1", "1", "1", "1", "1"]
    assert found[4][1]["s"] == "−1234.6" and found[4][1]["n"] == "−617.28"


def test_pruned_candidates_beyond_the_best_few_are_set_apart() -> None:
    found = nodes(beam_tree_html(SMALL, ENGLISH))
    assert sum("dp-pruned" in classes for classes, _ in found) == 5
    assert sum("dp-tree-more" in classes for classes, _ in found) == 4 - FEW
    assert all("dp-pruned" in classes for classes, _ in found if "dp-tree-more" in classes)


def test_ended_candidates_have_a_sign_of_their_own() -> None:
    steps = (SearchStep((kept(0, 5, 0), kept(0, 6, None))), SearchStep((kept(0, 7, None),)))
    html = beam_tree_html(tree(*steps, beams=(beam([5, 7]),)), ENGLISH)
    assert html.count("■</text>") == 1 and html.count("★</text>") == 1


@pytest.mark.parametrize("ids", [[9], [6, 9], [6, 8, 8]])
def test_a_beam_that_the_record_does_not_hold_has_no_path(ids: list[int]) -> None:
    html = beam_tree_html(dataclasses.replace(SMALL, beams=(beam(ids),)), ENGLISH)
    won = [data["t"] for classes, data in nodes(html) if "dp-tree-win" in classes]
    assert won in ([], [" t6", " t8"]) and (len(won) == 2) == (ids[:2] == [6, 8])


@pytest.mark.parametrize(
    "params",
    [
        {"num_beams": 4, "num_return_sequences": 4, "max_new_tokens": 12},
        {"num_beams": 1, "max_new_tokens": 1},
        {"method": "diverse_beam", "num_beams": 6, "num_beam_groups": 3, "max_new_tokens": 12},
    ],
)
def test_every_returned_beam_of_a_real_search_has_its_path(params: dict[str, Any]) -> None:
    found = searched(**params)
    html = beam_tree_html(found, ENGLISH)
    drawn = nodes(html)
    for ends, returned in zip(
        re.findall(r'<button type="button" data-node="(\d+)"', html), found.beams, strict=True
    ):
        texts, at = [], ends
        while at != "":
            texts.append(drawn[int(at)][1]["t"])
            at = drawn[int(at)][1]["p"]
        assert len(texts) == returned.length
        assert "".join(reversed(texts)).removesuffix("</s>") == returned.text


def test_markup_in_a_token_or_a_beam_stays_literal() -> None:
    """Case 60."""
    step = SearchStep((dataclasses.replace(kept(0, 5, None), text=EVIL),))
    html = beam_tree_html(tree(step, beams=(dataclasses.replace(beam([5]), text=EVIL),)), ENGLISH)
    assert "<img" not in html
    assert nodes(html)[0][1]["t"] == EVIL


def test_boxes_show_blanks_and_stay_narrow() -> None:
    texts = [" a", "\n", "", "汉字汉字汉字", " internationalisation", "x" * 100_000, None]
    step = SearchStep(
        tuple(dataclasses.replace(kept(0, i, i), text=t) for i, t in enumerate(texts))
    )
    html = beam_tree_html(tree(step), ENGLISH)
    shown = re.findall(r'<rect[^>]*/><text x="6" y="14">([^<]*)', html)[1:]
    assert shown == ["·a", "⏎", "◌", "汉字汉…", "·intern…", "xxxxxxx…", "#6"]


def test_a_long_search_is_cut_and_says_so() -> None:
    steps = (SearchStep((kept(0, 5, 0),)),) * (MAX_STEPS + 1)
    html = beam_tree_html(tree(*steps, beams=(beam([5] * (MAX_STEPS + 1)),)), ENGLISH)
    assert "★</text>" not in html and "dp-tree-win" in html
    assert len(nodes(html)) == MAX_STEPS and f"first {MAX_STEPS} steps" in html


def test_eight_beams_and_sixty_steps_stay_light() -> None:
    """Point 7: still quick at this size; the page's own time is a matter of its bytes."""
    found = searched(num_beams=8, num_return_sequences=8, max_new_tokens=60, eos_token_id=())
    assert len(found.steps) == 60
    assert len(beam_tree_html(found, ENGLISH).encode()) < 400_000


def test_chinese_words() -> None:
    assert "被剪枝" in beam_tree_html(SMALL, Words("zh"))


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(params=[1280, 375])
def page(request: pytest.FixtureRequest, chromium: Any, tmp_path: Path) -> Any:
    """The tree of a real search on a page of its own, without Gradio."""
    found = searched(num_beams=4, num_return_sequences=4, max_new_tokens=30, eos_token_id=())
    style = (ASSETS / "css" / "page.css").read_text(encoding="utf-8")
    script = (ASSETS / "js" / "beam_tree.js").read_text(encoding="utf-8")
    file = tmp_path / "tree.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8"><style>body {{ margin: 0 }} {style}</style>'
        f'<body class="gradio-container">{beam_tree_html(found, ENGLISH)}<script>{script}</script>',
        encoding="utf-8",
    )
    context = chromium(request.param)
    opened = context.pages[0]
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(file.as_uri())
    yield opened
    assert faults == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= request.param
    context.close()


@pytest.mark.browser
def test_keys_walk_the_tree_and_tell_of_a_candidate(page: Any) -> None:
    page.locator(".dp-tree-scroll").focus()
    page.keyboard.press("ArrowRight")  # the first of the best beam's path
    page.keyboard.press("ArrowRight")
    here = page.locator(".dp-tree-here")
    note = page.locator(".dp-tree-note").inner_text()
    assert here.get_attribute("data-s") in note and here.get_attribute("data-n") in note
    assert "step 2" in note and page.locator(".dp-tree-on").count() == 2
    page.keyboard.press("ArrowDown")
    assert page.locator(".dp-tree-here").get_attribute("data-s") not in note
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    assert page.locator(".dp-tree-on").count() == 1


@pytest.mark.browser
def test_the_slider_reveals_step_by_step(page: Any) -> None:
    slider = page.locator(".dp-tree-bar input[type=range]")
    slider.focus()
    page.keyboard.press("Home")
    assert page.locator(".dp-tree-step:not(.dp-tree-later)").count() == 1
    page.keyboard.press("ArrowRight")
    assert page.locator(".dp-tree-step:not(.dp-tree-later)").count() == 2
    assert page.locator(".dp-tree-bar output").inner_text() == "2 / 30"
    assert "Step 2 of 30: 4 beams live on" in page.locator(".dp-tree-note").inner_text()


@pytest.mark.browser
def test_more_pruned_candidates_on_demand(page: Any) -> None:
    more = page.locator(".dp-tree-more").first
    assert not more.is_visible()
    before = page.locator(".dp-tree svg").bounding_box()["height"]
    page.locator(".dp-tree-all input").check()
    assert more.is_visible()
    assert page.locator(".dp-tree svg").bounding_box()["height"] > before


@pytest.mark.browser
def test_a_returned_beam_shows_its_path(page: Any) -> None:
    page.locator(".dp-tree-beams button").nth(2).click()
    assert page.locator(".dp-tree-on").count() == 30
