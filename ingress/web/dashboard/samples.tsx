// The sample documents: the offers to add them in dialogs, in chats and on the page of documents.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { get, post } from "./api";
import { hide, isHidden } from "./hidden";
import { useLive } from "./live";
import { useList, useQuery } from "./query";
import { useMay, useSession } from "./state";
import * as texts from "./texts/samples";
import { Words } from "./texts/samples";
import type { Document, Sample, Tools } from "./types";
import { Button, showError } from "./ui/button";
import { Curl } from "./ui/curl";
import { Switch } from "./ui/field";
import { size } from "./ui/parts";
import { toast } from "./ui/toast";

const path = "/api/knowledge/samples";

/**
 * Reports whether an agent with these tools searches all documents, and therefore also new
 * documents.
 */
export function searchesDocuments({ knowledge }: Tools): boolean {
  return knowledge?.enabled === true && !knowledge.documentIds && Object.keys(knowledge.metadata ?? {}).length === 0;
}

let added = false; // whether samples were added, and no chat has reported their state since then

/** Adds the sample documents. Samples that the organization already has stay as they are. */
async function addSamples(): Promise<void> {
  const { data } = await post<{ data: Document[] }>(path);
  added = true;
  toast(texts.samplesWereAdded(data.length));
}

/** Reports whether samples were added since the last call. */
function takeAdded(): boolean {
  const was = added;
  added = false;
  return was;
}

/** Loads the sample documents. Loads nothing if wanted is false. */
const useSamples = (wanted: boolean): Sample[] | undefined =>
  useQuery<{ data: Sample[] }>(wanted ? path : null, (signal) => get(path, {}, signal)).data?.data;

const totalSize = (samples: Sample[]): string => size(samples.reduce((sum, sample) => sum + sample.bytes, 0));
const joinNames = (samples: Sample[]): string => samples.map((sample) => sample.name).join(", ");

/**
 * Returns a switch for a dialog that creates an agent with these tools, and a function that adds
 * the samples if the switch is on. The switch is initially on if the organization has no documents.
 * There is no switch if the agent does not search documents, if the organization has all samples,
 * or if the person may not add documents.
 */
export function useSampleSwitch(tools: Tools | undefined): { field: ComponentChildren; add: () => Promise<void> } {
  const may = useMay("admin");
  const wanted = may && tools !== undefined && searchesDocuments(tools);
  const samples = useSamples(wanted);
  const some = useList<Document>(wanted ? "/api/knowledge" : null, { limit: 1 });
  const [chosen, choose] = useState<boolean | null>(null);
  if (samples === undefined || some.data === undefined || samples.every((sample) => sample.documentId !== null)) {
    return { field: null, add: async () => {} };
  }

  const on = chosen ?? some.data.length === 0;
  return {
    field: (
      <>
        <Switch label={Words.addSampleDocuments} checked={on} onChange={choose} hint={texts.answerSuggestions(joinNames(samples), totalSize(samples))} />
        {on && <Curl what={Words.addSampleDocuments} request={{ method: "POST", path }} />}
      </>
    ),
    add: async () => {
      if (on) await addSamples().catch(showError); // a failure is only shown: the agent exists, and its chat offers the samples again
    },
  };
}

/** Describes the sample documents, with a button that adds them. */
export function OfferSamples({ onAdded }: { onAdded: () => void }) {
  const samples = useSamples(true);
  if (samples === undefined) return null;
  const add = async () => {
    await addSamples();
    onAdded();
  };
  return (
    <section class="stack tight" aria-label={Words.sampleDocuments}>
      <p>{texts.tryWithSamples(joinNames(samples), totalSize(samples))}</p>
      <div class="row">
        <Button onClick={add}>{Words.addSampleDocuments}</Button>
        <Curl what={Words.addSampleDocuments} request={{ method: "POST", path }} />
      </div>
    </section>
  );
}

const maxRead = 20; // number of documents that are loaded to find the samples that are being read

/** The state of the sample documents, for the chat with an agent that searches documents. */
export interface SamplesState {
  /** Whether the organization's documents are not known yet. */
  loading: boolean;
  /** Whether the organization has no documents. */
  none: boolean;
  /** Whether the organization has few documents, none of which is a sample. */
  missing: boolean;
  /** The number of samples that the organization has, and of those that are ready. */
  added: number;
  ready: number;
  /** Whether samples are being read. */
  reading: boolean;
  reload: () => void;
}

/** Returns the state of the sample documents. Loads nothing if wanted is false. */
export function useSamplesState(wanted: boolean): SamplesState {
  const documents = useList<Document>(wanted ? "/api/knowledge" : null, { limit: maxRead });
  useLive("documents", documents.reload);
  const samples = documents.data?.filter((d) => "example" in d.metadata) ?? [];
  return {
    loading: wanted && documents.data === undefined && documents.error === undefined,
    none: documents.data?.length === 0,
    missing: documents.data !== undefined && documents.data.length < maxRead && samples.length === 0,
    added: samples.length,
    ready: samples.filter((d) => d.status === "ready").length,
    reading: samples.some((d) => d.status === "queued" || d.status === "processing"),
    reload: documents.reload,
  };
}

/**
 * A note that offers the samples if the organization has no documents, and then shows the progress
 * of reading them. In an empty chat, the person can dismiss the offer. Below an answer that found
 * nothing, the note has a button when the samples are ready. The button calls the property "again",
 * which repeats the question. If the question was a suggested one, the samples are offered even if
 * there are other documents.
 */
export function SamplesNote({ state, again, suggested = false }: { state: SamplesState; again?: () => void; suggested?: boolean }) {
  const organization = useSession()?.organization.id ?? "";
  const may = useMay("admin");
  const [hidden, setHidden] = useState(() => isHidden("samples", organization));
  const [reports, setReports] = useState(takeAdded); // whether the note reports that the samples are ready
  useEffect(() => {
    if (state.reading) setReports(true);
  }, [state.reading]);

  const dismiss = () => {
    hide("samples", organization);
    setHidden(true);
  };
  if (state.reading) return <p class="note" role="status">{texts.samplesAreBeingRead(state.ready, state.added)}</p>;
  if (reports && state.ready > 0) {
    return (
      <div class="note samples-note">
        <p role="status">{again ? Words.samplesAreReady : Words.samplesAreReadyToAsk}</p>
        {again && <Button look="primary" onClick={again}>{Words.askAgain}</Button>}
      </div>
    );
  }
  if (!state.none && !(suggested && state.missing) || (hidden && !again)) return null;
  const problem = !state.none ? Words.samplesAreMissing : again ? Words.foundNothing : Words.noDocumentsYet;
  if (!may) return <p class="note">{problem} {Words.adminsAddDocuments}</p>;
  const add = async () => {
    await addSamples();
    setReports(takeAdded());
    state.reload();
  };
  return (
    <section class="note samples-note" aria-label={Words.sampleDocuments}>
      <p>{problem}</p>
      <Button look={again ? "primary" : undefined} onClick={add}>{Words.addSampleDocuments}</Button>
      {!again && <Button look="bare" icon="close" label={Words.notNow} onClick={dismiss} />}
      <Curl what={Words.addSampleDocuments} request={{ method: "POST", path }} />
    </section>
  );
}
