import { h, render } from "preact";
import { equal, type Test } from "../kit/check";
import { later } from "./later";

export const tests: Test[] = [
  {
    name: "a page is shown whose code comes between its drawing and its effects",
    run: async () => {
      const code = Promise.withResolvers<Record<"first" | "second", string>>();
      const page = later<Record<"first" | "second", string>>(() => code.promise);
      const First = page((words) => () => h("p", null, words.first));
      const Second = page((words) => () => h("p", null, words.second));
      const root = document.createElement("div");
      document.body.append(root);
      try {
        render(h(First, {}), root);
        await new Promise((resolve) => setTimeout(resolve, 300)); // it waits
        render(h(Second, {}), root);
        code.resolve({ first: "one", second: "two" });
        await new Promise((resolve) => setTimeout(resolve, 1000));
        equal(root.textContent, "two");
      } finally {
        render(null, root);
        root.remove();
      }
    },
  },
];
