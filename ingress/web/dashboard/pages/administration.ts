// The pages for administrators. They share one bundle, because each further bundle would cost a
// request.
export { AutomationsPage } from "./automations";
export { HookPage } from "./hook";
export { NewHookPage } from "./newhook";
export { OrgPage } from "./org";
