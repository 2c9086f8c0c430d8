import { h, render } from "preact";
import { equal, type Test } from "../kit/check";
import { later } from "./later";

export const tests: Test[] = [
  {
    name: "a page is shown if its code arrives between rendering and effects",
    run: async () => {
      let come = () => {};
      const code = new Promise<Record<"first" | "second", string>>((resolve) => {
        come = () => resolve({ first: "one", second: "two" });
      });
      const page = later(() => code);
      const First = page((words) => () => h("p", null, words.first));
      const Second = page((words) => () => h("p", null, words.second));
      const root = document.createElement("div");
      document.body.append(root);
      try {
        render(h(First, {}), root);
        await new Promise((resolve) => setTimeout(resolve, 300)); // by then, the first page has begun to load the code
        render(h(Second, {}), root);
        come();
        await new Promise((resolve) => setTimeout(resolve, 1000));
        equal(root.textContent, "two");
      } finally {
        render(null, root);
        root.remove();
      }
    },
  },
];
