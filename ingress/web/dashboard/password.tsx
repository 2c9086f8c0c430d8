// The dialog that explains how to set a password. A session cannot set one, because a stranger with
// a stolen session could then lock the person out.
import { useResetCommand } from "./state";
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
import { Button } from "./ui/button";
import { Snippet } from "./ui/copy";
import { Dialog } from "./ui/dialog";

export function SetPassword({ email, onClose }: { email: string; onClose: () => void }) {
  const command = `${useResetCommand()} ${email}`;
  return (
    <Dialog title={Words.setAPassword} onClose={onClose} foot={<Button look="primary" onClick={onClose}>{Words.done}</Button>}>
      <div class="stack">
        <p>{Words.aLinkSetsThePassword}</p>
        <Snippet label={Words.commandThatPrintsTheLink} text={command} />
        <p class="hint">{Words.linkWorksOnce} {texts.adminsCreateLinks("/dashboard/org")}</p>
      </div>
    </Dialog>
  );
}
