// The texts of the editor of a JSON Schema.

export enum Words {
  // Texts of the module ui/schema.
  jsonSchema = "JSON Schema",
  messageToTry = "Test message",
  runsAgentAsItWasLast = "Runs the last saved version of the agent with this schema. The test counts as a run.",
  tryWord = "Try",
  data = "Data",
  runHasNotFinished = "The run has not finished yet. Follow it under Runs.",
  onlyAutomationsMayRun = "The schema cannot be tried here, because only automations may run this agent.",
}

// Texts of the module ui/json.
export const mustBeValidJson = (message: string): string => `must be valid JSON: ${message}`;
