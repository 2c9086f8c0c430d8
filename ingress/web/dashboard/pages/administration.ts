// The pages with which people set an organization up. They share one bundle, because each further
// bundle would cost a request.
export { AutomationsPage } from "./automations";
export { HookPage } from "./hook";
export { KnowledgePage } from "./knowledge";
export { NewHookPage } from "./newhook";
export { OrgPage } from "./org";
