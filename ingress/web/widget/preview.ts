// The widget in the dashboard's preview. Its attribute "preview" contains the agent, and the
// organization in which the person is signed in, as JSON; see Member.
import { AgentChat } from "./element";

if (!customElements.get("agent-chat")) customElements.define("agent-chat", AgentChat);
