// The texts of charts.

export enum Words {
  noRunFinished = "No run finished in this period.",
}

/** The names of results and measures. */
export const measures: Record<string, string> = { completed: "completed", failed: "failed", other: "other", median: "median", "95th percentile": "95th percentile" };

export const amountMeasure = (amount: string, measure: string): string => `${amount} ${measure}`;
export const maximumIs = (max: string): string => `The maximum is ${max}.`;
export const longestIsFormat = (format: string): string => `The longest is ${format}.`;
export const labelNameInFormat = (label: string, name: string, format: string): string => `${label}: ${name} in ${format}`;
