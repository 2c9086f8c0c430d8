// Whether the window is as narrow as that of a phone.
import { useEffect, useState } from "preact/hooks";

const narrow = matchMedia("(max-width: 47.99rem)"); // the same width as in the style sheets

export function useNarrow(): boolean {
  const [is, setIs] = useState(narrow.matches);
  useEffect(() => {
    const tell = () => setIs(narrow.matches);
    tell();
    narrow.addEventListener("change", tell);
    return () => narrow.removeEventListener("change", tell);
  }, []);
  return is;
}
