import { h } from "../widget/dom";
import { equal, ok, quick, type Test } from "./check";
import { LiveMarkdown, markdown, type Citation, type MarkdownOptions } from "./markdown";
import { answers, hostile, huge, mixtures, pairs, changing } from "./markdown_samples";

const citation = (id: number, more: Partial<Citation> = {}): Citation => ({
  id, type: "web", title: `T${id}`, url: `https://cited.example/${id}`, citedText: `quote ${id}`, startIndex: 0, endIndex: 0, documentId: null, page: null, ...more,
});

function shown(text: string, options: Partial<MarkdownOptions<Node>> = {}): HTMLElement {
  return h("div", null, markdown<Node>(text, { h, ...options }));
}

/** Removes attributes that only affect the presentation. */
const html = (node: Element): string => node.innerHTML.replace(/ (dir|tabindex|role|aria-label|class|loading|title|target|rel)="[^"]*"/g, "");

/** Checks that an answer contains no link, loads nothing and runs nothing. */
function harmless(node: Element, what: string): void {
  const allowed = /^(P|H[2-6]|UL|OL|LI|BLOCKQUOTE|PRE|CODE|EM|STRONG|DEL|BR|HR|SUP|DIV|TABLE|THEAD|TBODY|TR|TH|TD|INPUT)$/;
  for (const element of node.querySelectorAll("*")) {
    ok(allowed.test(element.tagName), `${what}: ${element.tagName}`);
    for (const { name } of element.attributes) ok(!/^(on|href|src|style|srcset|action)/.test(name), `${what}: ${element.tagName} ${name}`);
  }
}

function measureDepth(node: Element): number {
  let max = 0;
  const left: [Element, number][] = [[node, 0]];
  for (let next = left.pop(); next; next = left.pop()) {
    max = Math.max(max, next[1]);
    for (const child of next[0].children) left.push([child, next[1] + 1]);
  }
  return max;
}

export const tests: Test[] = [
  {
    name: "Markdown is rendered",
    run() {
      for (const [text, want] of pairs) equal(html(shown(text)), want, text);
    },
  },
  {
    name: "hostile texts are rendered as text",
    run() {
      for (const text of hostile) {
        const node = shown(text, { citations: [citation(1)], path: () => null, image: () => null });
        harmless(node, text.slice(0, 60));
      }
      ok(shown("<script>alert(1)</script>").textContent === "<script>alert(1)</script>", "HTML is shown as text");
      equal(shown("a\u202Eb &#x202e; `\u2066`").textContent, "a\uFFFDb \uFFFD \uFFFD");
      const alt = shown("![a\u202Eb `\u202Ec` &#x202e;](x)", { image: () => "/x" }).querySelector("img")?.alt;
      equal(alt, "a\uFFFDb \uFFFDc \uFFFD");
      const url = "https://cited.example/\u202E";
      equal(shown(`[a](${url})`, { citations: [citation(1, { url })] }).querySelector("a")?.title, "https://cited.example/\uFFFD");
    },
  },
  {
    name: "links lead only to cited addresses and to paths of the caller",
    run() {
      const options = { citations: [citation(1), citation(2, { type: "document", documentId: "doc_1", url: "/api/knowledge?id=doc_1" }), citation(3, { url: "javascript:alert(1)" })] };
      const cited = shown("[a *b*](https://cited.example/1)", options).querySelector("a")!;
      equal([cited.getAttribute("href"), cited.rel, cited.target, cited.innerHTML], ["https://cited.example/1", "noopener noreferrer", "_blank", "a <em>b</em>"]);
      equal(shown("[a](https://cited.example/1/more)", options).textContent, "a (https://cited.example/1/more)");
      equal(shown("[https://x.example](https://x.example)", options).textContent, "https://x.example");
      equal(shown("[a](javascript:alert(1))", options).querySelector("a"), null);
      equal(shown("[a](/api/knowledge?id=doc_1)", options).querySelector("a"), null);
      const path = (address: string) => (address.startsWith("file:") ? `/files/${address.slice(5)}` : null);
      equal(shown("[a](file:1)", { path }).querySelector("a")?.getAttribute("href"), "/files/1");
      for (const evil of ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"]) {
        equal(shown("[a](x)", { path: () => evil }).querySelector("a"), null, evil);
        equal(shown("![a](x)", { image: () => evil }).querySelector("img"), null, evil);
      }
      const image = shown("![a *b*](plot.png)", { image: (address) => `/files/${address}` }).querySelector("img")!;
      equal([image.getAttribute("src"), image.alt], ["/files/plot.png", "a b"]);
      equal(shown("![a](https://evil.example/p.png)").textContent, "a (https://evil.example/p.png)");
    },
  },
  {
    name: "markers become references to their passages, also outside the BMP",
    run() {
      const citations = [citation(1, { citedText: "first" }), citation(12), citation(1, { citedText: "second" })];
      const cite = (c: Citation): Node => h("a", { class: "ref" }, `${c.id}:${c.citedText}`);
      equal(html(shown("😀 𝒳[1] and é̈[12][1]. `[1]` \\[1\\] [2] Wow![1]", { citations, cite })),
        "<p>😀 𝒳<a>1:first</a> and é̈<a>12:quote 12</a><a>1:second</a>. <code>[1]</code> [1] [2] Wow!<a>1:second</a></p>");
      equal(html(shown("[see [1]](https://cited.example/1)", { citations, cite })), '<p><a href="https://cited.example/1">see [1]</a></p>', "links are not nested");
      equal(html(shown("[1](https://evil.example)", { citations, cite })), "<p>1 (https://evil.example)</p>");
      equal(html(shown("| a[1] |\n|---|\n| b[12] |", { citations, cite })), "<div><table><thead><tr><th>a<a>1:first</a></th></tr></thead><tbody><tr><td>b<a>12:quote 12</a></td></tr></tbody></table></div>");
      const text = "é😀 oak[1] is";
      const c = citation(1, { startIndex: 0, endIndex: 6 });
      equal([...text].slice(c.startIndex, c.endIndex).join(""), "é😀 oak", "positions count code points");
    },
  },
  {
    name: "every prefix of an answer is harmless, has no stray marks, and leads to the same result as the whole",
    run() {
      for (const text of [...answers, ...changing, ...hostile.filter((t) => t.length < 300)]) {
        const citations = [citation(1), citation(1, { citedText: "another" }), citation(2)];
        const cite = (c: Citation): Node => h("sup", null, c.citedText);
        const live = new LiveMarkdown<Node>({ h, citations, cite });
        const points = [...text];
        for (let i = 0; i <= points.length; i++) {
          const part = points.slice(0, i).join("");
          const node = h("div", null, live.update(part, true)).cloneNode(true) as HTMLElement;
          node.querySelectorAll("a").forEach((a) => ok(a.href.startsWith("https://cited.example/"), part));
          node.querySelectorAll("code").forEach((code) => code.remove());
          if (answers.includes(text)) ok(!/\*\*|~~|```|\]\(|^#|\|-/m.test(node.textContent), `${JSON.stringify(part.slice(-40))} shows ${JSON.stringify(node.textContent.slice(-40))}`);
        }
        const whole = h("div", null, live.update(text, false));
        equal(whole.innerHTML, shown(text, { citations, cite }).innerHTML, text);
      }
    },
  },
  {
    name: "no order of marks throws, does harm, or leads to another result than the whole",
    run() {
      const citations = [citation(1), citation(1, { citedText: "another" })];
      const options = { citations, cite: (c: Citation): Node => h("sup", null, c.citedText) };
      for (const text of mixtures(3000)) {
        const what = JSON.stringify(text);
        try {
          const whole = shown(text, options);
          for (const a of whole.querySelectorAll("a")) {
            equal(a.getAttribute("href"), "https://cited.example/1", what);
            a.replaceWith(...a.childNodes); // these links are allowed, so they are removed before the check
          }
          harmless(whole, what);
          ok(!/[\u202A-\u202E\u2066-\u2069\0]/.test(whole.textContent), `${what} changes the reading direction`);
          const live = new LiveMarkdown<Node>({ h, ...options });
          for (let i = 0, step = 1; i < text.length; i += step, step = (step % 7) + 2) live.update(text.slice(0, i), true);
          equal(h("div", null, live.update(text, false)).innerHTML, shown(text, options).innerHTML, what);
        } catch (cause) {
          throw new Error(`${what}: ${String(cause)}`, { cause });
        }
      }
    },
  },
  {
    name: "finished blocks keep their nodes",
    run() {
      const live = new LiveMarkdown<Node>({ h });
      const before = live.update("# One\n\ntwo\n\n- three\n\nfour\n\nfive", true);
      const after = live.update("# One\n\ntwo\n\n- three\n\nfour\n\nfive and more", true);
      for (let i = 0; i < 3; i++) ok(before[i] === after[i], `block ${i} was rendered again`);
      equal(live.update("other", true).length, 1, "another text is rendered from its start");
    },
  },
  {
    name: "unfinished markup is rendered as if complete",
    run() {
      const open = (text: string) => html(h("div", null, new LiveMarkdown<Node>({ h, citations: [citation(1)] }).update(text, true)));
      const cases: [string, string][] = [
        ["a **bo", "<p>a <strong>bo</strong></p>"],
        ["a **bold*", "<p>a <strong>bold</strong></p>"],
        ["a **", "<p>a</p>"],
        ["a *b **c", "<p>a <em>b <strong>c</strong></em></p>"],
        ["a `co", "<p>a <code>co</code></p>"],
        ["a [li", "<p>a li</p>"],
        ["a [link](https://ex", "<p>a link</p>"],
        ["a [1", "<p>a </p>"],
        ["a[1]", "<p>a<sup>[1]</sup></p>"],
        ["a[7]", "<p>a<sup>7</sup></p>"],
        ["a\n\n```js\nlet", "<p>a</p><pre><code>let</code></pre>"],
        ["a\n\n``", "<p>a</p>"],
        ["a\n\n-", "<p>a</p>"],
        ["a\n-", "<p>a</p>"],
        ["a\n\n2.", "<p>a</p>"],
        ["- a\n  -", "<ul><li>a</li></ul>"],
        ["| a | b", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody></tbody></table></div>"],
        ["| a | b |\n", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody></tbody></table></div>"],
        ["| a | b |\n|--", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody></tbody></table></div>"],
        ["| a | b |\n|---|---|\n| c **d", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>c <strong>d</strong></td></tr></tbody></table></div>"],
      ];
      for (const [text, want] of cases) equal(open(text), want, text);
    },
  },
  {
    name: "rendering a growing answer takes linear time",
    run() {
      const text = answers.join("\n\n").repeat(12);
      quick("growing", () => {
        const live = new LiveMarkdown<Node>({ h });
        for (let i = 0; i < text.length; i += 7) live.update(text.slice(0, i), true);
      });
    },
  },
  {
    name: "rendering a growing list or table takes linear time",
    run() {
      const long = {
        list: "- item one two three [1] four five six\n".repeat(2700),
        "numbered list": "3. item *one* two three\n   more of it\n".repeat(2500),
        table: `| a | b |\n|---|---|\n${"| one two | three **four** [1] |\n".repeat(3000)}`,
      };
      for (const [name, text] of Object.entries(long)) {
        let made = 0;
        const count: MarkdownOptions<Node>["h"] = (tag, props, ...children) => {
          made++;
          return h(tag, props, ...children);
        };
        const options = { h: count, citations: [citation(1)] };
        const live = new LiveMarkdown<Node>(options);
        for (let i = 0; i < text.length; i += 500) live.update(text.slice(0, i), true);
        const whole = h("div", null, live.update(text, false));
        const grown = made;
        made = 0;
        equal(whole.innerHTML === h("div", null, markdown(text, options)).innerHTML, true, `${name} differs from the complete rendering`);
        ok(grown < 6 * made, `${name}: created ${grown} nodes for ${made}`);
      }
    },
  },
  ...Object.entries(huge()).map(([name, text]): Test => ({
    name: `200 KB are rendered within a second, without deep nesting: ${name}`,
    run() {
      quick(name, () => {
        const node = shown(text);
        ok(measureDepth(node) < 60, `nesting depth = ${measureDepth(node)}`);
      });
      quick(`${name}, open`, () => new LiveMarkdown<Node>({ h }).update(text, true));
    },
  })),
];
