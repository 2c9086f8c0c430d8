import { equal, type Test } from "../kit/check";
import type { Citation } from "../kit/markdown";
import { sharesPage } from "./answer/samepage";
import { findMarks } from "./pages/knowledge/marks";
import type { PageWord } from "./types";

/** Returns words that are boxes of 10 by 10 points, five on a line. */
const page = (text: string): PageWord[] =>
  text.split(" ").map((word, i) => ({ text: word, box: [(i % 5) * 12, Math.floor(i / 5) * 14, (i % 5) * 12 + 10, Math.floor(i / 5) * 14 + 10] }));

const cited = (id: number, page: number, more: Partial<Citation> = {}): Citation => ({
  id, type: "document", title: "terms.pdf", url: "/api/documents?id=doc_1", citedText: `quote ${id}`, startIndex: 0, endIndex: 0, documentId: "doc_1", page, ...more,
});

export const tests: Test[] = [
  {
    name: "citations of one page are recognized",
    run: () => {
      const all = [cited(1, 4), cited(2, 4), cited(3, 5), cited(4, 6), cited(5, 6, { citedText: "" })];
      equal(all.map((c) => sharesPage(c, all)), [true, true, false, true, false]);
      equal(sharesPage(cited(1, 4), [cited(1, 4)]), false);
      equal(sharesPage(cited(1, 4, { documentId: null }), all), false);
    },
  },
  {
    name: "a quote is marked on each of its lines, whatever its spaces, hyphens and quotation marks",
    run: () => {
      const words = page("Terms. The lamp has a war- ranty of “two” years. Keep the receipt.");
      equal(findMarks(words, "warranty  of \"two\"\nyears"), [[0, 14, 58, 24]]);
      equal(findMarks(words, "The lamp has a warranty"), [[12, 0, 58, 10], [0, 14, 22, 24]]);
    },
  },
  {
    name: "a page without the quote has no marks",
    run: () => {
      equal(findMarks(page("The lamp has a warranty"), "three years"), []);
      equal(findMarks(page("The lamp has a warranty"), " … "), []);
      equal(findMarks([], "two years"), []);
    },
  },
  {
    name: "of a quote that continues on the next page, the part on this page is marked",
    run: () => {
      const words = page("Return the lamp in its box within thirty days");
      equal(findMarks(words, "Return the lamp in its box within thirty days and we pay the whole price back to your account").length > 0, true);
    },
  },
];
