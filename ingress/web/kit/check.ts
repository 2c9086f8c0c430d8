// For tests: what throws when something is not so.

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

/** The error that is thrown. */
export async function thrown(by: () => unknown): Promise<unknown> {
  try {
    await by();
  } catch (cause) {
    return cause;
  }
  throw new Error("nothing was thrown");
}
