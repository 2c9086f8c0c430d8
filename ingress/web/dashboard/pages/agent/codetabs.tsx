// The bundle of the tabs Embed and Use it of an agent's page, which consist of code to copy.
import "../../shared";
import type { Editor } from "./editor";
import { Embed } from "./embed";
import { SaveBar } from "./savebar";

export { Use as UseTab } from "./use";
export const EmbedTab = ({ editor }: { editor: Editor }) => <><Embed editor={editor} /><SaveBar editor={editor} /></>;
