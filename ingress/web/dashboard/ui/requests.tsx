// The dialog with the API requests of a page or dialog.
import { useEffect } from "preact/hooks";
import { useBaseUrl, useSession } from "../state";
import * as texts from "../texts/parts";
import { Words } from "../texts/parts";
import { Snippet, formatCurl, type Request } from "./copy";
import { show, useAsked } from "./curl";
import { Dialog } from "./dialog";

/** The dialog with the requests that an API button shows, until the page changes. */
export function ApiRequests({ path }: { path: string }) {
  const calls = useAsked();
  const baseUrl = useBaseUrl();
  const session = useSession();
  useEffect(() => () => show(null), [path]);
  if (!calls) return null;
  const uses = (credential: Request["credential"]) => calls.some((c) => (c.request.credential ?? "key") === credential);
  return (
    <Dialog title={Words.apiRequests} onClose={() => show(null)}>
      <div class="stack">
        {calls.map((c) => (
          <section key={c.what} class="stack tight">
            <h3>{c.what}</h3>
            <Snippet text={formatCurl(c.request, baseUrl)} label={c.what} />
          </section>
        ))}
        {uses("session") && (
          <p class="hint">{texts.setParleySession()}</p>
        )}
        {uses("key") && (
          <p class="hint">
            {texts.setParleyApiKey(session?.organization.name ?? Words.yourOrganization)}
          </p>
        )}
        <p class="hint"><a href="/docs/api">{Words.apiReference}</a></p>
      </div>
    </Dialog>
  );
}
