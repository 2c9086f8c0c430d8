// Assertions for tests. They throw if a condition is not met.

export interface Test {
  name: string;
  run: () => void | Promise<void>;
}

export function equal(got: unknown, want: unknown, what = ""): void {
  const a = JSON.stringify(got);
  const b = JSON.stringify(want);
  if (a !== b) throw new Error(`${what}\n got: ${a}\nwant: ${b}`);
}

export function ok(so: boolean, what: string): void {
  if (!so) throw new Error(what);
}

/** Returns the error that a function throws. */
export async function thrown(by: () => unknown): Promise<unknown> {
  try {
    await by();
  } catch (cause) {
    return cause;
  }
  throw new Error("nothing was thrown");
}

/**
 * Returns the milliseconds that a fixed amount of work takes, which is about 50 on an idle machine.
 */
function measure(): number {
  const began = performance.now();
  const node = document.createElement("div");
  for (let i = 0; i < 40_000; i++) node.append(document.createElement("p"), `text ${i}`);
  return performance.now() - began;
}

/**
 * Runs a function that must take less than a second, or proportionally longer on a busy machine.
 */
export function quick(what: string, run: () => void): void {
  let took = 0;
  let max = 1000;
  for (let i = 0; i < 3; i++) {
    const began = performance.now();
    run();
    took = performance.now() - began;
    if (took <= max) return;
    max = Math.max(max, measure() * 20);
  }
  throw new Error(`${what}: took ${Math.round(took)} ms, want at most ${Math.round(max)}`);
}
