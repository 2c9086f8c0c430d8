// The dialog that explains how to set a password. A session cannot set one, because a stranger with
// a stolen session could then lock the person out.
import { signOut } from "./account";
import { useResetCommand } from "./state";
import * as texts from "./texts/frame";
import { Words } from "./texts/frame";
import { Button } from "./ui/button";
import { Snippet } from "./ui/copy";
import { Dialog } from "./ui/dialog";

/** The dialog that explains how to set a password. If leaving is true, it asks whether a person without a password wants to sign out. */
export function SetPassword({ email, leaving, onClose }: { email: string; leaving?: boolean; onClose: () => void }) {
  const command = `${useResetCommand()} ${email}`;
  const foot = leaving
    ? <><Button onClick={onClose}>{Words.staySignedIn}</Button><Button look="danger" onClick={signOut}>{Words.signOutAnyway}</Button></>
    : <Button look="primary" onClick={onClose}>{Words.done}</Button>;
  return (
    <Dialog title={leaving ? Words.signOutWithoutPassword : Words.setAPassword} onClose={onClose} foot={foot}>
      <div class="stack">
        {leaving && <p>{Words.youHaveNoPassword}</p>}
        <p>{Words.aLinkSetsThePassword}</p>
        <Snippet label={Words.commandThatPrintsTheLink} text={command} />
        <p class="hint">{Words.linkWorksOnce} {texts.adminsCreateLinks("/dashboard/org")}</p>
      </div>
    </Dialog>
  );
}
