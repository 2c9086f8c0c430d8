// The pages for setting up an organization. They share one bundle, because each bundle needs a
// request of its own.
import "../shared";
export { AutomationsPage } from "./automations";
export { HookPage } from "./hook";
export { NewHookPage } from "./newhook";
export { OrgPage } from "./org";
