// Records what a client can do with Parley, for the table in docs/clients.md. The names of the features are in matrix_test.go.
import { appendFileSync } from "node:fs";

// clientOf returns the functions that record the outcomes of one client.
export function clientOf(client) {
  const record = (outcome) => (...features) => {
    if (process.env.FEATURES) appendFileSync(process.env.FEATURES, JSON.stringify({ client, outcome, features }) + "\n");
  };
  return { works: record("works"), refuses: record("refused"), lacks: record("not offered") };
}
