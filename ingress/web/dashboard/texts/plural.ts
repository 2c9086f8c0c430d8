const whole = new Intl.NumberFormat("en");

/**
 * Returns a number with its noun, for example "1 page" or "2 pages". The plural is the noun with an
 * s.
 */
export const many = (n: number, thing: string): string => `${whole.format(n)} ${thing}${n === 1 ? "" : "s"}`;
