import { h } from "../widget/dom";
import { equal, ok, quick, type Test } from "./check";
import { highlight } from "./highlight";

const shown = (text: string, language: string): HTMLElement => h("code", null, highlight<Node>(h, text, language));

export const tests: Test[] = [
  {
    name: "highlights the languages of answers, by their names and aliases",
    run() {
      const samples: Record<string, string> = {
        bash: "if true; then echo hi; fi", c: "int main(void) { return 0; }", cpp: "class A { public: int x; };", css: "a { color: red; }", go: "func main() {}",
        java: "class A { }", javascript: "const a = 1;", js: "const a = 1;", json: '{"a": 1}', markdown: "# a", python: "def f(): pass", py: "def f(): pass", rust: "fn main() {}",
        sql: "SELECT 1", typescript: "let a: string", xml: "<a b='c'/>", html: "<a>", yaml: "a: 1", sh: "if true; then echo; fi",
      };
      for (const [language, text] of Object.entries(samples)) {
        const code = shown(text, language);
        equal(code.textContent, text, language);
        ok(code.querySelector("[class^=hljs-]") !== null, `nothing is highlighted in ${language}`);
      }
    },
  },
  {
    name: "shows unknown languages and long code without highlighting, and hostile code as text",
    run() {
      equal(shown("a b", "klingon").innerHTML, "a b");
      equal(shown("a b", "").innerHTML, "a b");
      equal(shown("a b", "__proto__").innerHTML, "a b");
      const long = "const a = 1;\n".repeat(5000);
      equal(shown(long, "js").children.length, 0);
      const hostile = shown("<img src=x onerror=alert(1)><script>alert(1)</script>", "html");
      ok(hostile.querySelector("img, script") === null, hostile.innerHTML);
    },
  },
  {
    name: "20 KB of nested code is highlighted within a second",
    run() {
      for (const [language, text] of [["js", "`${".repeat(6000)], ["json", "[".repeat(19_000)], ["markdown", "*_".repeat(9000)], ["python", 'f"{'.repeat(5000)]] as const) {
        quick(language, () => equal(shown(text, language).textContent, text, language));
      }
    },
  },
];
