const whole = new Intl.NumberFormat("en");

/** Returns a number with its noun, for example "1 page" or "2 pages". */
export const many = (n: number, thing: string): string => `${whole.format(n)} ${thing}${n === 1 ? "" : "s"}`;
