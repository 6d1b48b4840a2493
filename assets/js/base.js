// Shared by the page's scripts: elements that hold text only, and the panels' blocks of data.
globalThis.dp ??= {
  /** An element; `parts` are elements or texts, never markup. */
  make(tag, className = "", ...parts) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...parts);
    return element;
  },

  /** The parsed block of data of a panel. A panel may be given new data: the text decides. */
  data(panel) {
    const text = panel.querySelector(":scope > script.dp-data").textContent;
    let known = dp.parsed.get(panel);
    if (known?.text !== text) dp.parsed.set(panel, (known = { text, value: JSON.parse(text) }));
    return known.value;
  },
  parsed: new WeakMap(),
};
