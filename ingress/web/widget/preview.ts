// The widget in the dashboard's preview. Its attribute "preview" names the organization in which the person is signed in.
import { AgentChat } from "./element";

if (!customElements.get("agent-chat")) customElements.define("agent-chat", AgentChat);
