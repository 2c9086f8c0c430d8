// The texts about the sample documents.
import { many } from "./plural";

export enum Words {
  // Texts of the module samples.
  sampleDocuments = "Sample documents",
  addSampleDocuments = "Add the sample documents",
  noDocumentsYet = "There are no documents yet.",
  foundNothing = "The agent found nothing in the documents, because there are none yet.",
  samplesAreMissing = "This suggested question is about the sample documents, which are missing.",
  adminsAddDocuments = "Only admins of the organization can add documents.",
  notNow = "Not now",
  samplesAreReady = "The sample documents are ready.",
  samplesAreReadyToAsk = "The sample documents are ready. Ask a question about them.",
  askAgain = "Ask again",
}

// Texts of the module samples.
const what = (names: string, size: string): string => `short texts about a made-up lamp shop and LED bulbs: ${names} (${size}). You can delete them under Knowledge.`;
export const answerSuggestions = (names: string, size: string): string => `The suggested questions need these ${what(names, size)}`;
export const tryWithSamples = (names: string, size: string): string => `To try your agents without documents of your own, add ${what(names, size)}`;
export const samplesWereAdded = (files: number): string => `Added ${many(files, "sample document")}. You can delete them under Knowledge.`;
export const samplesAreBeingRead = (ready: number, files: number): string => `The sample documents are being read: ${ready} of ${files} are ready.`;
