// The buttons that copy the code on a page of the documentation.
import { Words } from "./texts";

const confirmTime = 2000; // milliseconds for which a button confirms a copy
const maxBeside = 24; // maximum number of characters for which the code and the button share a line on a phone

for (const code of document.querySelectorAll<HTMLElement>("pre > code")) {
  const block = code.parentElement!;
  const box = document.createElement("div");
  box.className = "copyable";
  box.classList.toggle("short", (code.textContent ?? "").trim().length <= maxBeside);
  block.before(box);
  box.append(block, copyButton(code));
}

/**
 * Returns a button that copies the text of an element. If the browser blocks copying, the button
 * selects the text.
 */
function copyButton(code: HTMLElement): HTMLButtonElement {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = Words.copy;

  let timer: ReturnType<typeof setTimeout> | undefined;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent?.trimEnd() ?? "");
      button.textContent = Words.copied;
    } catch {
      getSelection()?.selectAllChildren(code);
      button.textContent = Words.selected;
    }
    clearTimeout(timer);
    timer = setTimeout(() => (button.textContent = Words.copy), confirmTime);
  });
  return button;
}

export {};
