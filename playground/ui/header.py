"""The top of the page: what it is, and language, theme, link and embedding."""

from __future__ import annotations

from html import escape

from playground.ui.strings import LANGUAGES, Words


def header_html(say: Words) -> str:
    """Title, one line, and the buttons that assets/js/page.js acts on."""
    label = escape(say("top.label"))
    languages = " ".join(_language(name, name == say.language) for name in LANGUAGES)
    return (
        f'<div class="dp-top"><div><h1>{escape(say("app.title"))}</h1>'
        f"<p>{escape(say('app.line'))}</p></div>"
        f'<nav aria-label="{label}"><span class="dp-languages">{languages}</span>'
        f"{_button('theme', '◐', say('top.theme'))}"
        f"{_button('link', say('top.link'), say('top.link.tip'), say('top.link.done'))}"
        f"{_button('embed', say('top.embed'), say('top.embed.tip'))}</nav></div>{_dialog(say)}"
    )


def _language(name: str, current: bool) -> str:
    code = {"zh": "zh-CN"}.get(name, name)
    here = ' aria-current="true"' if current else ""
    shown = escape(LANGUAGES[name]["language"])
    return f'<a href="?lang={name}" data-language="{name}" lang="{code}"{here}>{shown}</a>'


def _button(action: str, text: str, tip: str, done: str = "") -> str:
    after = f' data-done="{escape(done)}"' if done else ""
    name = f' aria-label="{escape(tip)}"' if not text.isalpha() and len(text) == 1 else ""
    return (
        f'<button type="button" class="dp-button" data-do="{action}" title="{escape(tip)}"{name}'
        f"{after}>{escape(text)}</button>"
    )


def _dialog(say: Words) -> str:
    """Two snippets to copy; the script fills them in for the present setup and panel."""
    parts = "".join(
        f'<label for="snippet-{kind}">{escape(say(f"embed.{kind}"))}</label>'
        f'<div><textarea id="snippet-{kind}" data-snippet="{kind}" rows="4" readonly '
        f'spellcheck="false"></textarea>'
        f"{_button('snippet', say('embed.copy'), say('embed.copy'), say('chips.copied'))}</div>"
        for kind in ("iframe", "component")
    )
    return (
        f'<dialog id="embed-dialog" aria-labelledby="embed-title"><h2 id="embed-title">'
        f"{escape(say('embed.title'))}</h2><p>{escape(say('embed.help'))}</p>{parts}"
        f"{_button('close', say('embed.close'), say('embed.close'))}</dialog>"
    )
