import { h, render } from "preact";
import { equal, type Test } from "../kit/check";
import { Share } from "./pages/org/limits";

/** Renders the used part of a quota. Returns its text, and whether it has a meter. */
function shown(max: number | null): [string | null, boolean] {
  const box = document.createElement("div");
  render(h(Share, { what: "Documents", used: 3, max, format: String }), box);
  const result: [string | null, boolean] = [box.textContent, box.querySelector("meter") !== null];
  render(null, box);
  return result;
}

export const tests: Test[] = [
  {
    name: "a quota without a maximum has no limit",
    run: () => {
      equal(shown(12), ["Documents3 of 12", true]);
      equal(shown(null), ["Documents3, no limit", false]);
    },
  },
];
