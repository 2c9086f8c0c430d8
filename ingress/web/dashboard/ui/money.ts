// Formats costs. The API returns costs in millionths of the service's currency.

let code = "USD";
let formats: Intl.NumberFormat[] = [];

/** Sets the currency of costs, as an ISO 4217 code. */
export function setCurrency(currency: string): void {
  code = currency;
  formats = [];
}

/** Returns the currency of costs, as an ISO 4217 code. */
export const currency = (): string => code;

/**
 * The maximum numbers of decimal places: for costs below 0.01, for costs below 100, and for higher
 * costs.
 */
const places = [6, 4, undefined];

/**
 * Formats a cost with its currency. Small costs have more decimal places than the currency usually
 * has, because a single call often costs less than a hundredth.
 */
export function money(micros: number): string {
  if (formats.length === 0) {
    formats = places.map((maximumFractionDigits) => new Intl.NumberFormat("en", { style: "currency", currency: code, maximumFractionDigits, trailingZeroDisplay: "stripIfInteger" }));
  }
  return formats[micros < 10_000 ? 0 : micros < 100_000_000 ? 1 : 2]?.format(micros / 1e6) ?? "";
}

/**
 * Returns a typed amount in millionths of the currency, or null if the text is not an amount. A comma
 * is accepted as the decimal separator, except before three digits, where it may also separate
 * thousands.
 */
export function parseMoney(typed: string): number | null {
  const text = typed.trim().replace(/^(\d*),(?!\d{3}$)(\d+)$/, "$1.$2");
  const n = text === "" ? Number.NaN : Number(text);
  return Number.isFinite(n) && n >= 0 ? Math.round(n * 1e6) : null;
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });

/** Formats a cost without its currency. */
export const plainMoney = (micros: number): string => plain.format(micros / 1e6);
