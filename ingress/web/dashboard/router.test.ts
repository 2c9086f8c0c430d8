import { h, render } from "preact";
import { equal, type Test } from "../kit/check";
import { go, useGuard } from "./router";

/** Reports whether the browser would ask before the page is left. */
const asksAtClose = () => !dispatchEvent(new Event("beforeunload", { cancelable: true }));

export const tests: Test[] = [
  {
    name: "a page that is no longer shown asks nothing",
    run: () => {
      const asked: string[] = [];
      const Page = ({ dirty }: { dirty: boolean }) => {
        useGuard(dirty, (to) => {
          asked.push(to);
          return false;
        });
        return null;
      };
      const root = document.createElement("div");
      const here = location.pathname + location.search;
      equal(asksAtClose(), false, "at first");
      render(h(Page, { dirty: false }), root);
      equal(asksAtClose(), false, "nothing is unsaved");
      render(h(Page, { dirty: true }), root);
      equal(asksAtClose(), true, "something is unsaved");
      go("/elsewhere");
      equal(asked, ["/elsewhere"]);
      equal(location.pathname + location.search, here, "the page stays while the person is asked");
      render(h(Page, { dirty: false }), root);
      equal(asksAtClose(), false, "everything is saved");
      render(h(Page, { dirty: true }), root);
      render(null, root);
      equal(asksAtClose(), false, "the page is gone");
      go(here);
      equal(asked, ["/elsewhere"], "the page is gone");
    },
  },
];
