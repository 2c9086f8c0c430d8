// This script runs in each document before the document's own scripts, in the isolated world of the
// tests.

// The Go tests provide the function tell, which reports a fault of the page.
document.addEventListener("securitypolicyviolation", (e) => {
  tell(`${e.effectiveDirective} of the content security policy forbids ${e.blockedURI || "this"} ${e.sample} (${e.sourceFile}:${e.lineNumber})`);
});

globalThis.shifted = 0;
globalThis.shifts = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.hadRecentInput) continue;
    shifted += entry.value;
    shifts.push(`${entry.value.toFixed(4)}: ${entry.sources.map((s) => (s.node ? s.node.nodeName + " " + (s.node.className || s.node.textContent || "").toString().slice(0, 40) : "?")).join(", ")}`);
  }
}).observe({ type: "layout-shift", buffered: true });

// shown returns the text of a node, including open shadow trees.
globalThis.shown = (node) => {
  const root = node.nodeType === Node.DOCUMENT_NODE ? node.body : node;
  if (!root) return "";
  const texts = [root.innerText ?? ""];
  const walk = (within) => {
    for (const element of within.querySelectorAll("*")) {
      if (!element.shadowRoot) continue;
      for (const child of element.shadowRoot.children) texts.push(child.innerText ?? "");
      walk(element.shadowRoot);
    }
  };
  if (root.shadowRoot) for (const child of root.shadowRoot.children) texts.push(child.innerText ?? "");
  if (root.shadowRoot) walk(root.shadowRoot);
  walk(root);
  return texts.join("\n");
};

// focused returns the focused element, which may be within open shadow trees.
globalThis.focused = () => {
  let element = document.activeElement;
  while (element?.shadowRoot?.activeElement) element = element.shadowRoot.activeElement;
  return element;
};

// middle returns the middle of an element, or undefined if the element has no size.
const middle = (element) => {
  const [box] = [...element.getClientRects()].filter((r) => r.width > 0 && r.height > 0);
  return box && { x: box.left + box.width / 2, y: box.top + box.height / 2 };
};

// disabled reports whether a user cannot click an element, although it is visible.
const disabled = (element) => element.disabled || element.getAttribute("aria-disabled") === "true";

// words returns the words by which a user recognizes an element.
const words = (element) => (element.ariaLabel ?? element.labels?.[0]?.textContent ?? element.textContent ?? "").trim();

// described names an element by its control, which users know.
const described = (element) => {
  const control = element.closest?.("a, button, input, label, select, summary, textarea") ?? element;
  return `${control.nodeName.toLowerCase()} “${words(control).slice(0, 40)}”`;
};

// aim is the click that target has prepared. Its member missed is undefined until a click arrives.
// Then it is empty, or says what the click hit instead of the element.
let aim;

// reaches reports whether an event of the mouse uses the element of aim: the event passes through
// the element or its label, or the page has replaced the element by an equal one.
const reaches = (path) => path.some((node) => {
  if (node === aim.element || (node.localName === "label" && node.control === aim.element)) return true;
  return !aim.element.isConnected && node.localName === aim.element.localName && aim.words !== "" && words(node) === aim.words;
});

// This listener is the first to receive a click. A click that misses the element of aim has no
// effect on the page, so the tests can click again.
addEventListener("click", (event) => {
  if (!aim || aim.missed !== undefined || !event.isTrusted || event.detail === 0) return; // a key has detail 0
  const path = event.composedPath();
  aim.missed = reaches(path) ? "" : `the click hit ${described(path[0])}`;
  if (aim.missed === "") return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

// missed returns an empty string if the click that target has prepared has reached its element, and
// otherwise the reason. If the page has received no click, it waits for a few frames.
globalThis.missed = async () => {
  for (let frames = 0; frames < 5 && aim.missed === undefined; frames++) await new Promise(requestAnimationFrame);
  const { missed = "the click hit nothing" } = aim;
  aim = undefined;
  return missed;
};

// target scrolls to an element, and returns the point at which to click the element, or the reason
// why the element cannot be clicked. An element that moves between two frames counts as not
// clickable, because users could not hit it.
globalThis.target = async (element) => {
  if (disabled(element)) return { Why: "the element is disabled" };
  element.scrollIntoViewIfNeeded(true);
  const was = middle(element);
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const at = middle(element);
  if (!was || !at) return { Why: "the element has no size" };
  const { x, y } = at;
  if (was.x !== x || was.y !== y) return { Why: "the element moves" };
  let hit = document.elementFromPoint(x, y);
  while (hit?.shadowRoot) {
    const deeper = hit.shadowRoot.elementFromPoint(x, y);
    if (!deeper || deeper === hit) break;
    hit = deeper;
  }
  if (!hit) return { Why: `the element is out of sight (${Math.round(x)},${Math.round(y)})` };
  const within = (node) => {
    for (; node; node = node.parentNode ?? node.host) if (node === element) return true;
    return false;
  };
  if (!within(hit) && hit.closest("label")?.control !== element) return { Why: `${hit.nodeName.toLowerCase()}.${hit.className} covers the element` };
  aim = { element, words: words(element), missed: undefined };
  return { X: x, Y: y, Why: "" };
};
