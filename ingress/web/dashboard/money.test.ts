import { equal, type Test } from "../kit/check";
import { currency, money, parseMoney, plainMoney, setCurrency } from "./ui/money";

/** Formats amounts in a currency. Spaces that do not break become normal spaces. */
function inCurrency(code: string, amounts: number[]): string[] {
  const before = currency();
  setCurrency(code);
  const formatted = amounts.map((micros) => money(micros).replaceAll("\u00a0", " "));
  setCurrency(before);
  return formatted;
}

export const tests: Test[] = [
  {
    name: "a cost has its currency and as many decimal places as it needs",
    run: () => {
      equal(inCurrency("USD", [0, 1, 310, 9_999, 10_049, 500_000, 1_234_567, 25_000_000, 1_234_567_800]),
        ["$0", "$0.000001", "$0.00031", "$0.009999", "$0.01", "$0.50", "$1.2346", "$25", "$1,234.57"]);
      equal(inCurrency("EUR", [310, 25_000_000]), ["€0.00031", "€25"]);
      equal(inCurrency("CHF", [310, 1_500_000]), ["CHF 0.00031", "CHF 1.50"]);
      equal(inCurrency("JPY", [310, 1_500_000, 2_500_000_000]), ["¥0.00031", "¥1.5", "¥2,500"]);
    },
  },
  {
    name: "a typed amount may have a decimal comma",
    run: () => {
      equal(["0.5", "0,5", " 12,34 ", ",5", "1.000", "1000", "0"].map(parseMoney), [500_000, 500_000, 12_340_000, 500_000, 1_000_000, 1_000_000_000, 0]);
      equal(["", "1,000", "1,2,3", "1.000,50", "1,5.0", "-1", "five", "5 €"].map(parseMoney), Array(8).fill(null));
    },
  },
  {
    name: "the labels of an axis have no currency",
    run: () => equal([0, 200, 500_000, 2_000_000, 4_000_000_000].map(plainMoney), ["0", "0.0002", "0.5", "2", "4,000"]),
  },
];
