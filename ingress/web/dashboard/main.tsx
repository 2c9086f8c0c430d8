import { render } from "preact";
import { App } from "./app";
import type { Boot } from "./types";

const root = document.getElementById("app");
if (root) {
  const boot = JSON.parse(root.dataset["boot"] ?? "{}") as Boot;
  render(<App boot={boot} />, root);
}
