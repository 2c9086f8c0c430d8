// The bundle of the tab Settings of an agent's page.
import "../../shared";
import type { Editor } from "./editor";
import { SaveBar } from "./savebar";
import { Settings } from "./settings";

export const SettingsTab = ({ editor }: { editor: Editor }) => <><Settings editor={editor} /><SaveBar editor={editor} /></>;
