import { equal, ok, type Test } from "../kit/check";
import { StreamProblem } from "../kit/sse";
import { Answer, entry } from "./answer";
import { table as ofFiles } from "./files.texts";
import { advice } from "./service";
import { findLanguage, table, Texts, type Row } from "./texts";

/** Removes the differences between browsers in the spaces and apostrophes within numbers. */
const plain = (text: string): string => text.replace(/[\u00A0\u202F]/g, " ").replaceAll("’", "'");

/** The texts that are the same in all languages. */
const same = ["chat"];

export const tests: Test[] = [
  {
    name: "each text is translated, with the same values in each language",
    run() {
      for (const [name, row] of [...Object.entries<Row>(table), ...Object.entries<Row>(ofFiles)]) {
        const texts = row.map((text) => [text].flat());
        const values = texts.map((forms) => forms.map((form) => [...form.matchAll(/\{\d\}/g)].map(String).sort().join()).join("; "));
        equal(new Set(values).size, 1, `${name}: values ${values.join(" | ")}`);
        ok(texts.flat().every((form) => form.trim() !== ""), `${name}: a text is empty`);
        equal(new Set(texts.map(String)).size, same.includes(name) ? 1 : 3, `${name}: texts that differ`);
      }
    },
  },
  {
    name: "a language tag chooses the texts, and other languages get English",
    run() {
      for (const [tag, want] of Object.entries({
        en: "en", "en-GB": "en", de: "de", "de-CH": "de", DE: "de", de_AT: "de", " es ": "es", "es-419": "es",
        "": "en", fr: "en", "x-klingon": "en", constructor: "en", "de-": "de", "de-x": "de", "des": "en",
      })) equal(new Texts(tag).language, want, tag);
    },
  },
  {
    name: "numbers and plurals follow the language",
    run() {
      equal(["en", "de", "es"].map((tag) => [1, 2].map((n) => new Texts(tag).say("unread", n))),
        [["1 new message", "2 new messages"], ["1 neue Nachricht", "2 neue Nachrichten"], ["1 mensaje nuevo", "2 mensajes nuevos"]]);
      equal(new Texts("de").say("unread", 1000), "1.000 neue Nachrichten");
      equal(new Texts("en").say("source", 1, "{0} {1}"), "Source 1: {0} {1}", "a value is not filled again");
      equal(["en", "de", "de-CH", "es-MX"].map((tag) => plain(new Texts(tag).say("page", 12_345))), ["page 12,345", "Seite 12.345", "Seite 12'345", "página 12,345"]);
    },
  },
  {
    name: "the time until the next attempt is a sentence in the language",
    run() {
      const limited = (tag: string, after: number | null) =>
        plain(advice(new StreamProblem(429, "rate_limited", "", [], "", after), new Texts(tag)).text);
      equal(["en", "de", "es"].map((tag) => limited(tag, 1)), [
        "Too many messages. Try again in 1 second.",
        "Zu viele Nachrichten. Versuchen Sie es in 1 Sekunde noch einmal.",
        "Demasiados mensajes. Inténtelo de nuevo dentro de 1 segundo.",
      ]);
      equal(["en", "de", "es"].map((tag) => limited(tag, 600)), [
        "Too many messages. Try again in 10 minutes.",
        "Zu viele Nachrichten. Versuchen Sie es in 10 Minuten noch einmal.",
        "Demasiados mensajes. Inténtelo de nuevo dentro de 10 minutos.",
      ]);
      equal([limited("de", null), limited("en", 45)],
        ["Zu viele Nachrichten. Versuchen Sie es in einem Moment noch einmal.", "Too many messages. Try again in 45 seconds."]);
    },
  },
  {
    name: "the nearest lang attribute is the language, across shadow roots",
    run() {
      const outer = document.createElement("div");
      const host = document.createElement("div");
      const inner = document.createElement("p");
      host.attachShadow({ mode: "open" }).append(inner);
      outer.append(host);
      equal(findLanguage(inner), "", "no element states a language");
      outer.lang = "de-CH";
      equal(findLanguage(inner), "de-CH");
      host.lang = "es";
      equal(findLanguage(inner), "es");
      inner.lang = "";
      equal(findLanguage(inner), "", "an empty attribute states that the language is unknown");
    },
  },
  {
    name: "parts of an answer have names in the language",
    run() {
      const answer = new Answer(new Texts("de"));
      answer.show("- [x] a\n- [ ] b\n\n| c |\n|---|\n| d |\n", [], false);
      const names = [...answer.node.querySelectorAll("[aria-label]")].map((e) => e.getAttribute("aria-label"));
      equal(names, ["Erledigt", "Nicht erledigt", "Tabelle"]);
      equal(entry({ from: "visitor", text: "Hola" }, new Texts("es")).textContent, "Usted:Hola");
    },
  },
];
