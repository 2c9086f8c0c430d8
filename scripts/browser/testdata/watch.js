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

// target scrolls to an element, and returns the point at which to click the element, or the reason
// why the element cannot be clicked. An element that moves between two frames counts as not
// clickable, because users could not hit it.
globalThis.target = async (element) => {
  if (element.disabled || element.getAttribute("aria-disabled") === "true") return { Why: "the element is disabled" };
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
  return { X: x, Y: y, Why: "" };
};
