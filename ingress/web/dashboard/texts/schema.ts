// The texts of the editor of a JSON Schema.

export enum Words {
  // Texts of the module ui/schema.
  jsonSchema = "JSON Schema",
  messageToTry = "Message to try it with",
  runsAgentAsItWasLast = "Runs the agent as it was last saved, with this schema. It counts as a run.",
  tryWord = "Try",
  data = "Data",
  runHasNotFinished = "The run has not finished. See it on the page of runs.",
  onlyAutomationsMayRun = "The schema cannot be tried here, because only automations may run this agent.",
}

// Texts of the module ui/json.
export const mustBeValidJson = (message: string): string => `must be valid JSON: ${message}`;
