// Whether the window is as narrow as that of a phone.
import { useEffect, useState } from "preact/hooks";

const narrow = matchMedia("(max-width: 47.99rem)"); // the same width as in the style sheets

/** Matches on touch screens, where a field with the focus opens a keyboard that covers the page. */
export const touch = matchMedia("(pointer: coarse)");

export function useNarrow(): boolean {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const update = () => setIs(narrow.matches);
    update();
    narrow.addEventListener("change", update);
    return () => narrow.removeEventListener("change", update);
  }, []);
  return is;
}
