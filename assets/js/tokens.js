// Token chips: details on hover, tap and focus, arrow keys, switches, copying.
{
  const CHIP = ".dp-tokens .dp-t";
  const OPEN_MS = 60, CLOSE_MS = 180; // a pointer that crosses the text, or moves into the details
  let card = null, shown = null, held = false, timer = 0;

  const chipsOf = (chip) => [...chip.closest(".dp-text").querySelectorAll(".dp-t")];
  const closest = (node, selector) => (node instanceof Element ? node.closest(selector) : null);

  /** The one element for details, inside the page's own container, whose styles it needs. */
  function cardFor(chip) {
    card ??= dp.make("div", "dp-details");
    card.id = "dp-details";
    card.setAttribute("role", "tooltip");
    const home = chip.closest(".contain") ?? document.body;
    if (card.parentNode !== home) home.append(card);
    return card;
  }

  function cell(value) {
    const bar = dp.make("i");
    bar.style.setProperty("--dp-share", (Number.parseFloat(value) || 0) / 100);
    return dp.make("td", "dp-share", bar, dp.make("span", "", value));
  }

  function table(words, others) {
    const both = others.some((row) => row.length > 2);
    const heads = [words.others, words.target, ...(both ? [words.draft] : [])];
    const head = dp.make("tr", "", ...heads.map((text) => dp.make("th", "", text)));
    const rows = others.map(([name, ...values]) =>
      dp.make("tr", "", dp.make("td", "", dp.make("code", "", name)), ...values.map(cell)),
    );
    return dp.make("table", "", dp.make("thead", "", head), dp.make("tbody", "", ...rows));
  }

  function fill(chip) {
    const { words, tokens } = dp.data(chip.closest(".dp-tokens"));
    const token = tokens[chipsOf(chip).indexOf(chip)];
    const rows = Object.entries(token.rows).flatMap(([key, value]) => [
      dp.make("dt", "", words[key]),
      dp.make("dd", "", value),
    ]);
    const title = dp.make(
      "p", "",
      dp.make("code", "", token.name), dp.make("small", "", ` #${token.id} `),
      dp.make("b", `dp-key dp-${token.kind}`, words[`kind.${token.kind}`]),
    );
    const parts = [title, dp.make("dl", "", ...rows)];
    if (token.others.length) parts.push(table(words, token.others));
    cardFor(chip).replaceChildren(...parts);
  }

  /** Under the token where there is room, else above it, always inside the window. A token that
   * runs over a line end has a box on each line. */
  function place() {
    if (!shown?.isConnected) return close();
    const boxes = [...shown.getClientRects()], first = boxes[0], last = boxes.at(-1);
    if (!first) return close();
    const { offsetWidth: width, offsetHeight: height } = card;
    const right = document.documentElement.clientWidth - width - 8;
    const under = last.bottom + 6, lowest = innerHeight - height - 8;
    const top = under <= lowest || first.top < height + 6 ? Math.min(under, lowest) : first.top - height - 6;
    card.style.left = `${Math.max(8, Math.min(last.left, right))}px`;
    card.style.top = `${Math.max(8, top)}px`;
  }

  function open(chip, hold) {
    clearTimeout(timer);
    if (shown !== chip) {
      close();
      shown = chip;
      fill(chip);
      chip.setAttribute("aria-describedby", card.id);
      card.classList.add("dp-open");
      place();
    }
    held = hold;
  }

  function close() {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    card?.classList.remove("dp-open");
    shown = null;
    held = false;
  }

  /** Make `chip` the one that Tab reaches, and focus it. */
  function walkTo(chip) {
    for (const other of chipsOf(chip)) other.removeAttribute("tabindex");
    chip.tabIndex = 0;
    chip.focus();
    open(chip, true);
  }

  function walk(chip, key) {
    const chips = chipsOf(chip), at = chips.indexOf(chip), last = chips.length - 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[key];
    if (to === undefined) return false;
    walkTo(chips[Math.max(0, Math.min(last, to))]);
    return true;
  }

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission in a frame, or no secure context
      const area = dp.make("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  }

  async function press(button) {
    const panel = button.closest(".dp-tokens"), name = button.dataset.dp;
    if (name !== "copy") {
      const on = panel.classList.toggle(`dp-show-${name}`);
      return button.setAttribute("aria-pressed", String(on));
    }
    const { text, words } = dp.data(panel);
    await copy(text);
    button.focus();
    button.textContent = words.copied;
    setTimeout(() => (button.textContent = words.copy), 1500);
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch" || held) return;
    const chip = closest(event.target, CHIP);
    if (chip === shown && chip) return clearTimeout(timer);
    clearTimeout(timer);
    if (chip) timer = setTimeout(() => open(chip, false), OPEN_MS);
    else if (shown && !closest(event.target, ".dp-details")) timer = setTimeout(close, CLOSE_MS);
  });

  document.addEventListener("click", (event) => {
    const button = closest(event.target, ".dp-tokens .dp-tool"), chip = closest(event.target, CHIP);
    if (button) press(button);
    else if (chip && getSelection().isCollapsed) walkTo(chip);
    else if (!closest(event.target, ".dp-details")) close();
  });

  document.addEventListener("focusin", (event) => {
    const chip = closest(event.target, CHIP);
    if (chip) open(chip, true);
    else if (held) close();
  });

  // On the window, so that Esc closes the details before it stops a run.
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && shown) {
      close();
      event.stopImmediatePropagation();
    } else if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey) {
      const chip = closest(event.target, CHIP);
      if (chip && walk(chip, event.key)) event.preventDefault();
    }
  }, true);

  addEventListener("scroll", () => shown && place(), true);
  addEventListener("resize", () => shown && place());
}
