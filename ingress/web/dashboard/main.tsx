import { render } from "preact";
import { App } from "./app";
import "./shared";
import { applyTheme, theme } from "./theme";
import type { Boot } from "./types";
import { setCurrency } from "./ui/money";

if (theme() !== "system") applyTheme(theme());

const root = document.getElementById("app");
if (root) {
  const boot = JSON.parse(root.dataset["boot"] ?? "{}") as Boot;
  setCurrency(boot.currency);
  render(<App boot={boot} />, root);
}
