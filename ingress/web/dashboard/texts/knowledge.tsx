// The texts of the knowledge page.
import type { ComponentChildren } from "preact";
import { many } from "./plural";

export enum Words {
  // Texts of the module pages/knowledge.
  knowledge = "Knowledge",
  uploadADocument = "Upload a document",
  addTextOrUrl = "Add text or URL",
  uploadFiles = "Upload files",
  dropFilesAnywhere = " Choose files, or drop them anywhere on this page.",
  noDocumentsYet = "No documents yet",
  uploadPdfWordPowerpoint = "Upload PDF, Word, PowerPoint, Excel, EPUB, HTML, Markdown, text, CSV or JSON, up to 20 MiB each. ",
  adminsOfOrganizationAdd = "Only admins of the organization can add documents. ",
  documents = "Documents",
  name = "Name",
  status = "Status",
  size = "Size",
  pages = "Pages",
  passages = "Passages",
  added = "Added",

  // Texts of the module pages/knowledge/add.
  addADocument = "Add a document",
  cancel = "Cancel",
  addDocument = "Add document",
  source = "Source",
  textTypedOrPasted = "Typed or pasted text",
  urlToFetch = "A URL to fetch",
  nameOptional = "Name (optional)",
  openingHoursMd = "opening-hours.md",
  text = "Text",
  markdownKeepsItsHeadings = "In Markdown, headings and tables are kept.",
  url = "URL",
  publicUrlThatBegins = "A public URL that begins with https:// or http://. It is fetched once.",

  // Texts of the module pages/knowledge/ask.
  askAnAgentAboutIt = "Ask an agent about it",
  askAnAgent = "Ask an agent",
  askAnotherAgent = "Ask another agent",
  createAgentThatReads = "Create an agent that reads documents",

  // Texts of the module pages/knowledge/contents.
  contents = "Contents",
  page = "Page",
  passage = "Passage",
  previous = "Previous",
  next = "Next",
  textOfPage = "Text of the page",
  extractedText = "Extracted text",
  noText = "No text.",
  loadingThePage = "Loading the page",
  citedWordsAreMarked = "The cited words are marked.",
  citedWordsCouldNotBeFound = "The cited words could not be found in the picture. See the text of the page.",
  enlarge = "Enlarge",
  fitToWidth = "Fit to width",

  // Texts of the module pages/knowledge/document.
  document = "Document",
  id = "Id",
  copyDocumentsId = "Copy the document’s id",
  kind = "Kind",
  unknown = "unknown",
  from = "From",
  newContentIsBeingProcessed = "The new content is being processed.",
  couldntSendFileTry = "Couldn’t send the file. Try again.",
  download = "Download",
  replace = "Replace",
  tryAgain = "Try again",
  processAgain = "Process again",
  documentAndItsPassages = "The document and its passages are deleted immediately and permanently.",
  inEachSessionFirst = "Runs that received text from the document, and all later runs in the same sessions, are erased too, because their answers may quote the document.",
  downloadThisDocument = "Download this document",
  replaceThisDocument = "Replace this document",
  processThisDocumentAgain = "Process this document again",
  deleteThisDocument = "Delete this document",
  uploadOfNewContent = "Upload of the new content",
  saved = "Saved.",
  nameAndMetadata = "Name and metadata",
  changingNameProcessesDocument = "Changing the name processes the document again, because search includes names.",
  metadata = "Metadata",
  onePairPerLine = "One name and value per line, for example product: kettle. Agents and searches can filter by metadata.",
  save = "Save",
  changeThisDocument = "Change this document",
  deleteIt = "Delete",

  // Texts of the module pages/knowledge/search.
  search = "Search",
  searchTheDocuments = "Search the documents",
  findsPassagesThatAgent = "Shows the passages that an agent’s search would find.",
  howLongIsWarranty = "How long is the warranty?",
  searchedByWords = "Searched by words only: the embeddings service did not respond.",

  // Texts of the module pages/knowledge/uploads.
  filesToUpload = "Files to upload",
  dropFilesToUpload = "Drop files to upload them",
  uploads = "Uploads",
  stop = "Stop",
  dismiss = "Dismiss",
}

// Texts of the module pages/knowledge.
export const onceDocumentIsReady = (part: string): string => `${part}Once a document is ready, every agent with the knowledge tool can search and cite it.`;
export const documentsThatAgentsSearchAnswers = (may: ComponentChildren) => <>Documents that agents search. Answers cite the page and the exact words.{may}</>;

// Texts of the module pages/knowledge/add.
export const nameIsBeingProcessed = (name: string): string => `“${name}” is being processed.`;

// Texts of the module pages/knowledge/ask.
export const askAbout = (name: string): string => `Ask an agent about it: ${name}`;
export const opensAgent = (agent: string): string => `Opens ${agent} with a question that you can change.`;
export const mainPointsOf = (name: string): string => `What are the main points of “${name}”?`;

// Texts of the module pages/knowledge/contents.
export const partPageOfLast = (part: string, page: number, last: number): string => `${part} ${page} of ${last}`;
export const pagePageOfName = (page: number, name: string): string => `Page ${page} of ${name}`;

// Texts of the module pages/knowledge/document.
export const pagesLower = (n: number): string => many(n, "page");
export const passagesLower = (n: number): string => many(n, "passage");
export const inLanguage = (language: string): string => `, in ${language}`;
export const nameIsDeleted = (name: string): string => `“${name}” is deleted.`;
export const deleteName = (name: string): string => `Delete “${name}”?`;
export const newContentOfName = (name: string): string => `New content of ${name}`;

// Texts of the module pages/knowledge/search.
export const noPassageMatchesTry = (asked: string): string => `No passage matches “${asked}”. Try other words.`;
export const pagePage = (page: number): string => ` · page ${page}`;

// Texts of the module pages/knowledge/status.
export const processedPagesOfName = (name: string): string => `Processed pages of ${name}`;
export const pagesDoneOfPages = (pagesDone: number, pages: number): string => `${pagesDone} of ${pages}`;

// Texts of the module pages/knowledge/uploads.
export const uploadOfName = (name: string): string => `Upload of ${name}`;
