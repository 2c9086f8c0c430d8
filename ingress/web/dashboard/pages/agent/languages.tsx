// An example in several languages. All examples on a page show the chosen language.
import { useEffect, useState } from "preact/hooks";
import * as texts from "../../texts/use";
import { Button } from "../../ui/button";
import { Snippet } from "../../ui/copy";

let chosen = "";
const changed = new EventTarget();

export function Languages({ what, of }: { what: string; of: Record<string, string> }) {
  const [, redraw] = useState(0);
  useEffect(() => {
    const update = () => redraw((n) => n + 1);
    changed.addEventListener("change", update);
    return () => changed.removeEventListener("change", update);
  }, []);
  const names = Object.keys(of);
  const name = names.includes(chosen) ? chosen : names[0] ?? "";
  const choose = (other: string) => {
    chosen = other;
    changed.dispatchEvent(new Event("change"));
  };
  return (
    <div class="languages">
      <div class="segments" role="group" aria-label={texts.languageWhat(what)}>
        {names.map((n) => <Button key={n} look="bare" pressed={n === name} onClick={() => choose(n)}>{n}</Button>)}
      </div>
      <Snippet text={of[name] ?? ""} label={`${what}, ${name}`} />
    </div>
  );
}
