// The form of an agent's answers: text, or JSON that matches a schema.
import { Words } from "../../texts/agent";
import { Section } from "../../ui/parts";
import { SchemaEditor } from "../../ui/schema";
import type { Editor } from "./editor";

export function Answers({ editor }: { editor: Editor }) {
  const { agent, draft, set, fault } = editor;
  return (
    <Section title={Words.answers} intro={Words.textOrJson}>
      <SchemaEditor value={draft.outputSchema} onChange={(v) => set("outputSchema", v)} fault={fault("outputSchema")} hint={Words.leaveEmptyForAnswers} agent={agent} />
    </Section>
  );
}
