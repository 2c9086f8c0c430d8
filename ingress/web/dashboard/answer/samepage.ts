// Compares the citations of an answer.
import type { Citation } from "../../kit/markdown";

/**
 * Reports whether another citation has the same title and page. Then only the cited words distinguish
 * the two citations.
 */
export const sharesPage = (citation: Citation, all: Citation[]): boolean =>
  citation.documentId !== null && citation.citedText !== "" && all.some((c) => c.id !== citation.id && c.title === citation.title && c.page === citation.page);
