// Types for attachments and documents in the API.

/** An image or a document that was sent with a message. */
export interface Attachment {
  fileId: string;
  name: string;
  mediaType: string;
  bytes: number;
}

export interface Document {
  id: string;
  name: string;
  mimeType: string;
  bytes: number;
  sha256: string | null;
  url: string | null;
  status: "queued" | "processing" | "ready" | "failed";
  error: { code: string; message: string } | null;
  pages: number | null;
  pagesDone: number;
  chunks: number;
  language: string;
  notes: string[];
  metadata: Record<string, string>;
  createdAt: string;
  updatedAt: string;
}
