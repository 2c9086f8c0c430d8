// Parts of pages that a person has hidden in this browser, for each organization.

const keyFor = (part: string, organization: string): string => `parley.${part}-hidden.${organization}`;

/** Reports whether the person has hidden a part of a page. */
export function isHidden(part: string, organization: string): boolean {
  try {
    return localStorage.getItem(keyFor(part, organization)) !== null;
  } catch {
    return false; // the browser blocks storage
  }
}

/** Remembers that the person has hidden a part of a page. */
export function hide(part: string, organization: string): void {
  try {
    localStorage.setItem(keyFor(part, organization), "1");
  } catch {
    // the browser blocks its storage: the part stays hidden until the page is left
  }
}
