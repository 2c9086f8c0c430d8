// The first questions that a chat offers if its agent has no suggested questions.

export enum Words {
  // Texts of the module firstquestions.
  whatCanYouDo = "What can you do?",
  whatAreMainPoints = "What are the main points of the documents?",
  computeSquares = "Compute the squares of 1 to 10 and plot them.",
  searchTheNews = "Search the web for today's most important news.",
}

// Texts of the module firstquestions.
export const showExampleOf = (what: string): string => `Show me an example of this: ${what}`;
export const showWorkAs = (name: string): string => `Show me an example of your work as “${name}”.`;
export const whichValuesFor = (endpoint: string): string => `Which values do you need to use ${endpoint}?`;
