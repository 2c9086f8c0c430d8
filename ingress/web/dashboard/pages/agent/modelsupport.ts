// The model settings that models accept. Generated from shared/domain/model_support.go by:
// cd ingress && go test ./web -run TableOfModelSettings -update
export interface Range {
  min: number;
  max: number;
}

export interface ModelSupport {
  prefix: string;
  temperature: Range | null;
  topP: Range | null;
  reasoningEffort: string[] | null;
  seed: boolean;
  stop: boolean;
  parallelToolCalls: boolean;
  samplesWithoutEffort?: boolean;
  oneOfSampling?: boolean;
  visibleStop?: boolean;
}

/** Returns what a model of a provider's own service accepts. */
export const supportFor = (model: string): ModelSupport => table.find((s) => model.startsWith(s.prefix))!;

const table: ModelSupport[] = [
  {"prefix":"openai/gpt-3.5","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":true,"stop":true,"parallelToolCalls":true},
  {"prefix":"openai/gpt-4","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":true,"stop":true,"parallelToolCalls":true},
  {"prefix":"openai/chatgpt-","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":true,"stop":true,"parallelToolCalls":true},
  {"prefix":"openai/gpt-5-chat","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":true,"stop":true,"parallelToolCalls":true},
  {"prefix":"openai/gpt-5-","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["minimal","low","medium","high"],"seed":true,"stop":false,"parallelToolCalls":true},
  {"prefix":"openai/gpt-5.1","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","low","medium","high"],"seed":true,"stop":false,"parallelToolCalls":true,"samplesWithoutEffort":true},
  {"prefix":"openai/gpt-5.2","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","low","medium","high","xhigh"],"seed":true,"stop":false,"parallelToolCalls":true,"samplesWithoutEffort":true},
  {"prefix":"openai/gpt-5.3","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","low","medium","high","xhigh"],"seed":true,"stop":false,"parallelToolCalls":true,"samplesWithoutEffort":true},
  {"prefix":"openai/gpt-5.4","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","low","medium","high","xhigh"],"seed":true,"stop":false,"parallelToolCalls":true,"samplesWithoutEffort":true},
  {"prefix":"openai/gpt-5.","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","low","medium","high","xhigh"],"seed":true,"stop":true,"parallelToolCalls":true,"samplesWithoutEffort":true},
  {"prefix":"openai/gpt-5","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["minimal","low","medium","high"],"seed":true,"stop":false,"parallelToolCalls":true},
  {"prefix":"openai/o1","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high"],"seed":true,"stop":true,"parallelToolCalls":false},
  {"prefix":"openai/o3","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high"],"seed":true,"stop":false,"parallelToolCalls":false},
  {"prefix":"openai/o4","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high"],"seed":true,"stop":false,"parallelToolCalls":false},
  {"prefix":"anthropic/claude-3","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":false,"stop":true,"parallelToolCalls":true,"visibleStop":true},
  {"prefix":"anthropic/claude-opus-4-5","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":["low","medium","high"],"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-opus-4-6","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":["low","medium","high"],"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-sonnet-4-6","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":["low","medium","high"],"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-opus-4-7","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high","xhigh"],"seed":false,"stop":true,"parallelToolCalls":true,"visibleStop":true},
  {"prefix":"anthropic/claude-opus-4-8","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high","xhigh"],"seed":false,"stop":true,"parallelToolCalls":true,"visibleStop":true},
  {"prefix":"anthropic/claude-opus-4","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-sonnet-4","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-haiku-4","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":null,"seed":false,"stop":true,"parallelToolCalls":true,"oneOfSampling":true,"visibleStop":true},
  {"prefix":"anthropic/claude-","temperature":{"min":1,"max":1},"topP":{"min":1,"max":1},"reasoningEffort":["low","medium","high","xhigh"],"seed":false,"stop":true,"parallelToolCalls":true,"visibleStop":true},
  {"prefix":"anthropic/","temperature":{"min":0,"max":1},"topP":{"min":0,"max":1},"reasoningEffort":["low","medium","high","xhigh"],"seed":false,"stop":true,"parallelToolCalls":true,"visibleStop":true},
  {"prefix":"","temperature":{"min":0,"max":2},"topP":{"min":0,"max":1},"reasoningEffort":["none","minimal","low","medium","high","xhigh"],"seed":true,"stop":true,"parallelToolCalls":true},
];
