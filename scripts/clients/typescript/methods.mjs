// Prints the name of each method of the client, in the form group.method.
import { Parley } from "parley-sdk";

const internal = ["constructor", "submit", "streamCall"];
const methods = [];
for (const [group, value] of Object.entries(new Parley({ apiKey: "ak_x" }))) {
  const names = typeof value === "function" ? ["send", ...Object.keys(value)] : Object.getOwnPropertyNames(Object.getPrototypeOf(value));
  methods.push(...names.filter((name) => !internal.includes(name)).map((name) => `${group}.${name}`));
}
console.log(JSON.stringify(methods));
