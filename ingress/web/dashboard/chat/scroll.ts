// Scrolling in a chat. While the reader is at the end of the page, the page follows new text.
// Otherwise the visible text stays in place.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { stopRestoring } from "../router";

const maxDistance = 96; // maximum distance in CSS pixels from the end of the page at which the reader counts as being at the end

const fromEnd = (): number => document.documentElement.scrollHeight - scrollY - innerHeight;

const jump = (top: number): void => scrollTo({ top, behavior: "instant" });

/** Keeps the newest text visible while the reader is at the end of the page. */
export function useScroll(of: object) {
  const content = useRef<HTMLDivElement>(null);
  const foot = useRef<HTMLDivElement>(null);
  const sticks = useRef(true);
  const [away, setAway] = useState(false);
  useEffect(() => {
    stopRestoring(); // a chat opens at its end
    sticks.current = true;
    let at = scrollY;
    const look = () => {
      if (fromEnd() < maxDistance) sticks.current = true;
      else if (scrollY < at) sticks.current = false; // the reader has scrolled up; if the position has not decreased, the content has grown
      at = scrollY;
      setAway(!sticks.current);
    };

    let height = 0;
    let footHeight = Infinity; // the first measurement does not count as growth
    const grown = new ResizeObserver(() => {
      const now = content.current?.clientHeight ?? 0;
      const footNow = foot.current?.clientHeight ?? 0;
      if (sticks.current && (now > height || (now > 0 && footNow > footHeight))) jump(document.documentElement.scrollHeight);
      height = now;
      footHeight = footNow;
    });

    for (const { current } of [content, foot]) if (current) grown.observe(current);
    addEventListener("scroll", look, { passive: true });

    return () => {
      grown.disconnect();
      removeEventListener("scroll", look);
    };
  }, [of]);

  const kept = useRef<number | null>(null);
  useLayoutEffect(() => {
    if (kept.current === null) return;
    jump(document.documentElement.scrollHeight - kept.current);
  });

  return {
    content,
    /** The element at the bottom of the window that covers the end of the content. */
    foot,
    away,
    toEnd: () => {
      sticks.current = true;
      jump(document.documentElement.scrollHeight);
    },
    /**
     * Runs a function that inserts content above the visible text. The visible text stays in place.
     */
    keepInPlace: async (insert: () => Promise<void>) => {
      sticks.current = false;
      kept.current = document.documentElement.scrollHeight - scrollY;
      try {
        await insert();
      } finally {
        setTimeout(() => {
          kept.current = null;
        }, 200); // after the inserted content is rendered
      }
    },
  };
}

/** Returns the width of an element in CSS pixels. */
export function useWidth(element: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!element.current) return;
    setWidth(element.current.getBoundingClientRect().width);
    const watch = new ResizeObserver(([entry]) => setWidth(entry?.contentRect.width ?? 0));
    watch.observe(element.current);
    return () => watch.disconnect();
  }, []);
  return width;
}
