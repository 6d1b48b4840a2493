// The replay of rounds: a scrubber, buttons and arrow keys move through what the panel's data hold.
{
  const STEP_MS = 1200;
  const players = new WeakMap(); // panel -> the timer of its play button

  const share = (value) => `${100 * Math.max(0, Math.min(1, value))}%`;

  function mark(className, left, width) {
    const element = dp.make("i", className);
    element.style.left = share(left);
    if (width !== undefined) element.style.width = share(width);
    return element;
  }

  /** From 0 to 1: the acceptance, what the budget adds to the exact one, and the draw u. */
  function track({ accept, exact, u }) {
    const bar = dp.make("span", "dp-track"), base = Math.min(accept, exact ?? accept);
    bar.setAttribute("aria-hidden", "true"); // the note says the same in words
    bar.append(mark("dp-fill", 0, base));
    if (accept > base) bar.append(mark("dp-more", base, accept - base));
    if (exact > accept) bar.append(mark("dp-exact", exact));
    if (u !== null) bar.append(mark("dp-u", u));
    return bar;
  }

  const chip = (name, kind) => dp.make("code", `dp-t dp-${kind}`, name);

  function row(words, item) {
    const note = dp.make("p", "", dp.make("span", "", item.note));
    if (!item.laws) return dp.make("li", "", chip(item.name, item.kind), note);
    const [target, draft] = item.laws;
    note.append(dp.make("small", "", `${words.target} ${target} · ${words.draft} ${draft}`));
    return dp.make("li", "", chip(item.name, item.kind), dp.make("div", "", track(item), note));
  }

  function timeBar({ seconds, times }) {
    const bar = dp.make("span", "dp-times"), total = seconds[0] + seconds[1];
    bar.setAttribute("aria-hidden", "true");
    bar.append(mark("dp-of-draft", 0, total ? seconds[0] / total : 0));
    bar.append(mark("dp-of-target", total ? seconds[0] / total : 0, total ? seconds[1] / total : 0));
    const notes = [dp.make("span", "dp-of-draft", times[0]), dp.make("span", "dp-of-target", times[1])];
    return [bar, dp.make("p", "dp-time-notes", ...notes)];
  }

  function line(term, ...parts) {
    return [dp.make("dt", "", term), dp.make("dd", "", ...parts)];
  }

  /** A button that has nowhere to go keeps its focus, so that the arrow keys go on. */
  function setEnd(panel, name, end) {
    panel.querySelector(`[data-dp=${name}]`).setAttribute("aria-disabled", String(end));
  }

  /** Show round `at` (from 1) of a panel. */
  function show(panel, at) {
    const { words, rounds } = dp.data(panel);
    at = Math.max(1, Math.min(rounds.length, at));
    const round = rounds[at - 1];
    panel.dataset.at = at;
    panel.querySelector("input").value = at;
    panel.querySelector("output").textContent = `${words.round} ${at} / ${rounds.length}`;
    setEnd(panel, "previous", at === 1);
    setEnd(panel, "next", at === rounds.length);
    panel.querySelector(".dp-drafts").replaceChildren(...round.rows.map((item) => row(words, item)));
    panel.querySelector(".dp-why").replaceChildren(
      ...(round.next.length ? [chip(...round.next)] : []),
      dp.make("span", "", round.why),
    );
    panel.querySelector(".dp-sums").replaceChildren(
      ...line(words.time, ...timeBar(round)),
      ...line(words.totals, round.totals),
    );
    tell(panel.querySelector(".dp-story"), round);
  }

  /** The text up to a round; the place of what follows is kept. */
  function tell(story, { start, end }) {
    const chips = [...story.querySelectorAll(".dp-t")];
    chips.forEach((chip, i) => {
      chip.classList.toggle("dp-later", i >= end);
      chip.classList.toggle("dp-now", i >= start && i < end);
    });
    const now = chips[Math.max(0, end - 1)];
    if (!now) return;
    const middle = now.getBoundingClientRect().top - story.getBoundingClientRect().top;
    story.scrollTop += middle - story.clientHeight / 2;
  }

  const move = (panel, by) => show(panel, Number(panel.dataset.at) + by);

  function pause(panel) {
    clearInterval(players.get(panel));
    players.delete(panel);
    setPlay(panel, "play", "▶");
  }

  function setPlay(panel, word, sign) {
    const button = panel.querySelector("[data-dp=play]");
    button.textContent = sign;
    button.setAttribute("aria-label", dp.data(panel).words[word]);
  }

  function play(panel) {
    const last = () => Number(panel.dataset.at) >= dp.data(panel).rounds.length;
    if (last()) show(panel, 1);
    setPlay(panel, "pause", "❚❚");
    players.set(panel, setInterval(() => {
      if (!panel.isConnected || !panel.dataset.at) return pause(panel);
      move(panel, 1);
      if (last()) pause(panel);
    }, STEP_MS));
  }

  const panelOf = (node) => (node instanceof Element ? node.closest(".dp-rounds") : null);

  document.addEventListener("input", (event) => {
    const panel = panelOf(event.target);
    if (!panel) return;
    if (players.has(panel)) pause(panel);
    show(panel, Number(event.target.value));
  });

  document.addEventListener("click", (event) => {
    const panel = panelOf(event.target), name = event.target.closest?.("[data-dp]")?.dataset.dp;
    if (!panel || !name) return;
    const playing = players.has(panel);
    if (playing) pause(panel);
    if (name === "play" && !playing) play(panel);
    if (name !== "play") move(panel, name === "next" ? 1 : -1);
  });

  document.addEventListener("keydown", (event) => {
    const panel = panelOf(event.target);
    if (!panel || event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    if (players.has(panel)) pause(panel);
    move(panel, by);
  });

  // A panel that has just come, or whose HTML was replaced, shows no round yet.
  const begin = () => {
    if (document.readyState === "loading") return;
    for (const panel of document.querySelectorAll(".dp-rounds:not([data-at])")) show(panel, 1);
  };
  new MutationObserver(begin).observe(document, { childList: true, subtree: true });
  document.addEventListener("DOMContentLoaded", begin);
  begin();
}
