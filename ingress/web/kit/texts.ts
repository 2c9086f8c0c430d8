// The texts of the shared modules, in English. A page in another language passes its own labels.

/** The accessible names of the parts of an answer. */
export interface Labels {
  done: string;
  notDone: string;
  table: string;
}

export const labels: Labels = { done: "Done", notDone: "Not done", table: "Table" };

export const unreachable = "Can't reach the service.";
export const connectionLost = "Connection lost.";
export const responded = (status: number): string => `The service responded with status ${status}.`;
